"""The jobs: a plan in, a result out."""
