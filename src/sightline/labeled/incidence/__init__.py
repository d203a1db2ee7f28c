"""Which record is in which row: dense, sparse, or by cells of partitions."""
