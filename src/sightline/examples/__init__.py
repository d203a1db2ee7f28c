"""Two plans with their data, ready to be audited."""
