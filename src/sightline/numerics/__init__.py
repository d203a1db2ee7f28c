"""Exact and certified arithmetic, rank and factorisations: used by every room, each written once."""
