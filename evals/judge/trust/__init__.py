"""How far a judge can be trusted: agreement, noise, correction by labels."""
