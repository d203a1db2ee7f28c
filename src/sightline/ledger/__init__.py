"""The ledger: everything that was published about a table, and whether one more release may follow."""
