"""Twelve real deployments, each audited with its published parameters on people who were made up.

``python -m examples.gallery`` builds the tables, docs/gallery.md and its pictures.
"""
