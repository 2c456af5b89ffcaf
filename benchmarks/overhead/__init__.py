"""What capturing adds to the wall of programs."""
