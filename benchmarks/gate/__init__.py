"""How often the gate of tests is wrong."""
