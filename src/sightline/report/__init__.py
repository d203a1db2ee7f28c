"""Results for people and for machines: a terminal, JSON."""
