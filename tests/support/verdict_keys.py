"""The keys under which a verdict store holds the answers to questions of a judge."""

from collections.abc import Iterable, Mapping

from ragas.metrics.collections.context_entity_recall.util import EntitiesList
from ragas.metrics.collections.context_precision.util import ContextPrecisionOutput
from ragas.metrics.collections.context_recall.util import ContextRecallOutput
from ragas.metrics.collections.context_relevance.util import ContextRelevanceOutput

from evals import Experiment
from evals.judge.chat import make_chat
from tests.support.chat_requests import ChatRequest
from tests.support.ragas_prompts import Metric

SCHEMAS = {
    Metric.PRECISION: ContextPrecisionOutput,
    Metric.RECALL: ContextRecallOutput,
    Metric.RELEVANCE: ContextRelevanceOutput,
    Metric.ENTITIES: EntitiesList,
}


class VerdictKeys:
    """The keys of the judge of an experiment."""

    def __init__(self, config: Experiment, env: Mapping[str, str]) -> None:
        self._chat = make_chat(config.judge, env)

    def of(self, chats: Iterable[ChatRequest]) -> list[bytes]:
        """Return the keys of the questions among them."""
        questions = [(chat.prompt, chat.question) for chat in chats]
        return [self._chat.key(prompt, SCHEMAS[question.metric]) for prompt, question in questions if question]
