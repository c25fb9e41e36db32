"""`python -m evals.run`: the command and its flags."""
