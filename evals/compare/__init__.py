"""`python -m evals.compare`: the command."""
