"""SQL and data engines: aggregates over a table, read as releases over its rows. The only room with an engine."""
