"""One figure per file: from a result to an Altair chart and a sentence about it. Nothing is computed here."""
