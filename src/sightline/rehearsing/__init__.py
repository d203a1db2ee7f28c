"""Rehearse a publication: publish it with simulated noise, mount the attacks, compare with the truth."""
