"""SQL and data engines: aggregates over a table as releases over its rows. The only room with an engine."""
