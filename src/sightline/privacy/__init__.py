"""Budgets and accountants: how sharply a budget lets anything be seen. No records in this room."""
