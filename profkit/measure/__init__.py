"""What is measured of one run or one side, and the statistics for it. Pure; judges nothing."""
