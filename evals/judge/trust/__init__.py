"""Trust in a judge: agreement, correction by labels."""
