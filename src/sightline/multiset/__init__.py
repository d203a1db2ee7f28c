"""Unnamed values: what repeated statistics of one fixed group reveal about its sorted values."""
