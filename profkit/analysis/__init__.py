"""From two sides of profiles to a verdict: identity, alignment, ranking, difference, diagnosis.

Everything in this room is a pure function of its arguments: no file is opened, no clock is read, nothing is
printed. Import the module that you need; this one imports none of them, so that a command pays only for what
it uses.
"""
