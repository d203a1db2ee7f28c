"""What to change: the slack of the noise, remedies, what-if, and the least noise that keeps the limit."""
