"""Every figure, table and claim of the paper, computed again and compared with the numbers it prints."""
