"""A named record: what membership designs of any size expose of each record, and the IN/OUT closed forms."""
