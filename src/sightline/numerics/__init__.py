"""Exact and certified arithmetic, rank decisions and factorisations, for every other room."""
