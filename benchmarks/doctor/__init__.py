"""Measures what `profkit doctor` relies on: which limits each library honours, and how right its predictions are."""
