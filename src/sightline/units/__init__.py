"""People as blocks of columns: the design, its dense and sparse solvers, exact decisions, panels."""
