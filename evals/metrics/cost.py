"""What a result costs whoever reads it."""

from functools import lru_cache

from evals.collect.observations import Observation, Score
from evals.metrics.base import Context, QueryMetric, each
from retrievers.embedding.tokens import count_tokens
from retrievers.records import Chunk

KEPT_COUNTS = 100_000


def chunk_tokens(chunk: Chunk) -> int:
    """Tokens of a chunk: as recorded, or else counted, once a text."""
    return chunk.chunk_token_count or _counted(chunk.text)


@lru_cache(maxsize=KEPT_COUNTS)
def _counted(text: str) -> int:
    return count_tokens(text)


def context_tokens(observation: Observation, _: Context) -> Score:
    """Tokens of the returned chunks together: what a language model would have to read. 0 for an empty result."""
    return float(sum(chunk_tokens(found.chunk) for found in observation.selection))


METRICS: tuple[QueryMetric, ...] = (
    QueryMetric(name="cost/context_tokens", scope="all", interval="amount", score=each(context_tokens),
                about="tokens of the returned chunks"),
)  # fmt: skip
