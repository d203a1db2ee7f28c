"""Results for people: in a terminal, as an HTML page, in a notebook, as figures."""
