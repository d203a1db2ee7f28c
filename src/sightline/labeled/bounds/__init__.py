"""What an attacker knows of a value before any release, and the bounds on risk that follow."""
