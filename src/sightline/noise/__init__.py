"""Noise laws, and pricing: the one place where sensitivities and the accountant meet."""
