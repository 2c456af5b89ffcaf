"""How often the first line is right on programs that the authors of the rules have not written."""
