"""Thousands of run files as tables of Parquet, asked by DuckDB: the extra ``profkit[fleet]``."""
