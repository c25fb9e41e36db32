"""What a result costs whoever reads it."""

from evals.metrics.base import Context, QueryMetric, each
from evals.records import Observation, Score
from retrievers.tokens import count_tokens


def context_tokens(observation: Observation, _: Context) -> Score:
    """Tokens of the returned chunks together: what a language model would have to read. 0 for an empty result."""
    recorded = (found.chunk.chunk_token_count or count_tokens(found.chunk.text) for found in observation.selection)
    return float(sum(recorded))


METRICS: tuple[QueryMetric, ...] = (
    QueryMetric(name="cost/context_tokens", scope="all", interval="amount", score=each(context_tokens),
                about="tokens of the returned chunks"),
)  # fmt: skip
