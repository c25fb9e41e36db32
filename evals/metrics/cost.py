"""The cost of reading a result, in tokens."""

from functools import lru_cache

from evals.collect.observations import Observation, Score
from evals.metrics import prefixes
from evals.metrics.base import Context, QueryMetric, each
from evals.metrics.declaration import AMOUNT
from retrievers.embedding.tokens import count_tokens
from retrievers.records import Chunk

KEPT_COUNTS = 100_000


def chunk_tokens(chunk: Chunk) -> int:
    """Count the tokens of a chunk: as recorded, or else by the tokenizer, once a text."""
    return chunk.chunk_token_count or _counted(chunk.text)


@lru_cache(maxsize=KEPT_COUNTS)
def _counted(text: str) -> int:
    return count_tokens(text)


def context_tokens(observation: Observation, _: Context) -> Score:
    """Tokens of the returned chunks together: what a language model would have to read. 0 for an empty result."""
    return float(sum(chunk_tokens(chunk) for chunk in observation.selection.chunks))


METRICS: tuple[QueryMetric, ...] = (
    QueryMetric(name="cost/context_tokens", scope="all", interval="amount", score=each(context_tokens),
                over_prefixes=prefixes.context_tokens,
                about="tokens of the returned chunks", direction="lower", unit="tokens", range=AMOUNT),
)  # fmt: skip
