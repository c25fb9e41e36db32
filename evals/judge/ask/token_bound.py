"""The most tokens that a call may take, so that a budget is never exceeded."""

from math import ceil

from retrievers.embedding.tokens import count_tokens

# Tokens that a server may add to a prompt: its chat template and the response schema.
TEMPLATE = 256
# Factor by which the server's tokens per token of ours may exceed those of all earlier prompts.
MARGIN = 1.25


class Bound:
    """An upper bound of a call's tokens, learnt from the calls that were answered.

    Read: before the first answer one token for each byte of UTF-8, which no tokenizer exceeds, and `TEMPLATE`; then the
    packaged tokenizer's count, times the largest ratio of the server's count to it so far (at least 1), times `MARGIN`.
    Written: the limit that is sent along, or the longest answer so far, if a server exceeded it.

    Args:
        answer_limit: `judge.max_output_tokens`.
    """

    def __init__(self, answer_limit: int) -> None:
        self._ratio: float | None = None
        self._written = answer_limit

    def most(self, prompt: str) -> tuple[int, int]:
        """Return the most tokens that a call with this prompt may read and write."""
        if self._ratio is None:
            return len(prompt.encode("utf-8", "surrogatepass")) + TEMPLATE, self._written
        return ceil(count_tokens(prompt) * self._ratio * MARGIN), self._written

    def learn(self, prompt: str, tokens: tuple[int, int]) -> None:
        """Learn from the tokens that a call with this prompt read and wrote."""
        self._ratio = max(self._ratio or 1.0, tokens[0] / max(1, count_tokens(prompt)))
        self._written = max(self._written, tokens[1])
