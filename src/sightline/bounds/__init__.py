"""What every attack must leave, and what the best linear attack leaves: a bracket for every unit."""
