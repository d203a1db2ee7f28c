"""One figure per file: it draws a result as an Altair chart and describes it. It computes no results."""
