"""SQL and data engines: read aggregates over a table as releases over its rows."""
