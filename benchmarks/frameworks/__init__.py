"""What capturing adds to programs of widely used frameworks, against cProfile."""
