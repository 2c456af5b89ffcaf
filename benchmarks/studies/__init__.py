"""How well `profkit tune` finds the best setting, and what a study costs beyond its runs."""
