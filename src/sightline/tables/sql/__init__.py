"""Reads the SQL of a release: an allow-list over the syntax tree."""
