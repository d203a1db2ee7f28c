"""A plan for each way in which offices publish counts of people, on a register that was made up.

``sightline audit examples/counts/rules.toml`` audits one; ``python -m examples.counts`` draws the register.
"""
