"""One figure a file: a result in, an Altair chart and a sentence about it out; nothing is computed here."""
