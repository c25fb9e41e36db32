"""A choice in three lines."""

from evals.choice.records import Choice


def explain(choice: Choice) -> tuple[str, str, str]:
    """The recommendation, the best cell and its set, and the reason: a line each, rounded for reading."""
    raise NotImplementedError
