"""A store of thousands of run files: Parquet tables queried by DuckDB (the extra ``profkit[fleet]``)."""
