"""From signals to a verdict: the account of the lost time, rules, thresholds, advice; no sentences."""
