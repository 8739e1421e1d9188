"""The lake: digests of many jobs as Parquet files, asked with SQL. pyarrow and DuckDB are imported when asked for."""
