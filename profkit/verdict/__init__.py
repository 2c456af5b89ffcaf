"""From signals to a verdict: the account of the lost time, the rules and their thresholds, advice. Pure; words nothing."""
