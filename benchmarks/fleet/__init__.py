"""Many run files made from the sample profiles, with regressions that `profkit fleet` must find."""
