"""The least noise with which everyone keeps the limit: a convex problem, and a plan that passes the audit."""
