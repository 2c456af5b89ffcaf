"""One module for each target, which has a `fuzz.target.Target` called ``TARGET``."""
