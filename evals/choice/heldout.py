"""The unbiased figure of a choice: its score on queries that had no part in it."""

from evals.choice.records import Choice, HeldOut, ObjectiveScores


def held_out(choice: Choice, scores: ObjectiveScores, *, seed: int = 0) -> HeldOut:
    """The recommended cell on held-out queries.

    Args:
        choice: Made on other queries (the split `dev`).
        scores: The same objective and cells on the held-out queries (the split `test`).
        seed: Of the resampling.
    """
    raise NotImplementedError
