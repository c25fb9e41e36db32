"""One query with a useful and a useless passage, as an oracle knows it and as ragas asks about it."""

from ragas.metrics.collections.context_precision.util import ContextPrecisionInput, ContextPrecisionPrompt

from tests.support.judging import Labels, Oracle

QUERY = "q"
USEFUL, USELESS = "Inverse kinematics searches joint angles.", "A topic is a named channel."
CLAIM = "It searches angles."
ORACLE = Oracle({QUERY: Labels(useful={USEFUL}, claims={CLAIM: [USEFUL]})})
REASON = "The context is useful for 'q'."
RIGHT = f'{{"reason": "{REASON}", "verdict": 1}}'
"""What the oracle answers about the useful passage."""


def prompt(context: str = USEFUL) -> str:
    """Return ragas' question about a passage."""
    asked = ContextPrecisionInput(question=QUERY, context=context, answer=CLAIM)
    text: str = ContextPrecisionPrompt().to_string(asked)
    return text
