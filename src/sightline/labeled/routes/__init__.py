"""Ways to decide who is identifiable, and to compute risks for all records."""
