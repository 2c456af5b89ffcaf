"""How much of the lost time the first advice wins back, on programs that compete with themselves."""
