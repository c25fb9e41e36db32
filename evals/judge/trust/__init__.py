"""Trust in a judge: agreement, noise, correction by labels."""
