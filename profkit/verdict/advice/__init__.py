"""Advice: commands, variables and edits that should empty a bucket of the account."""
