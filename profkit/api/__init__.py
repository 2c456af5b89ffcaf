"""What ``profkit`` and the command line share. Only names in ``profkit`` itself are public (docs/api.md)."""
