"""Data engines behind one small protocol: DuckDB, Postgres, Spark."""
