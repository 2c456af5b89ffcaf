"""How well `profkit history` finds changes."""
