"""What the paper states, each statement checked by a computation that runs now."""
