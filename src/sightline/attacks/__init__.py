"""Attacks: estimators that run on noisy answers, and their Monte-Carlo risk."""
