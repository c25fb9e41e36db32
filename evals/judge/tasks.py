"""The tasks of a judge: one for each verdict, asked by ragas' own metric classes.

Context precision is asked about each chunk, so that its questions can be asked concurrently. ragas would ask them one
after the other. The other metrics are asked about a whole selection. Source: ragas 0.4.3, `ragas.metrics.collections`.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from math import isfinite
from typing import Any

from evals.collect.observations import Failure, Observation, Score
from evals.judge.answers import Schema
from evals.judge.asking import Asker, UnansweredError
from evals.judge.verdicts import ChunkVerdict, Claim, Selected
from evals.sampling.order import judging_order

PRECISION = "ragas/llm_context_precision"
RECALL = "ragas/llm_context_recall"
RELEVANCE = "ragas/llm_context_relevance"
ENTITY_RECALL = "ragas/llm_context_entity_recall"


@dataclass(frozen=True)
class JudgedMetric:
    """A metric of ragas that a judge grades.

    Attributes:
        class_name: Name of its class in `ragas.metrics.collections`.
        arguments: Names of the arguments of its `ascore`.
    """

    class_name: str
    arguments: tuple[str, ...]

    @property
    def needs_reference(self) -> bool:
        """True if the metric needs a reference answer."""
        return "reference" in self.arguments

    def inputs(self, question: str, reference: str, texts: Sequence[str]) -> dict[str, Any]:
        """Return the arguments of the metric's `ascore`."""
        inputs = {"user_input": question, "reference": reference, "retrieved_contexts": list(texts)}
        return {name: inputs[name] for name in self.arguments}


# The metrics that a judge grades.
JUDGED: Mapping[str, JudgedMetric] = {
    PRECISION: JudgedMetric("ContextPrecisionWithReference", ("user_input", "reference", "retrieved_contexts")),
    RECALL: JudgedMetric("ContextRecall", ("user_input", "reference", "retrieved_contexts")),
    RELEVANCE: JudgedMetric("ContextRelevance", ("user_input", "retrieved_contexts")),
    ENTITY_RECALL: JudgedMetric("ContextEntityRecall", ("reference", "retrieved_contexts")),
}


@dataclass(frozen=True, slots=True)
class Task:
    """One question to the judge: a metric of some chunks that a case got."""

    metric: str
    case_id: str
    chunk_ids: Selected
    inputs: Mapping[str, Any]


Graded = tuple[Score | ChunkVerdict, tuple[Claim, ...]]
"""The verdict on a chunk (context precision) or the score of a metric; and the claims, of context recall alone."""


def tasks(metrics: Collection[str], observations: Sequence[Observation], seed: int = 0) -> list[Task]:
    """Return the questions to ask, each once, query by query in random order. An empty selection needs no question.

    All selections of a query come before those of the next query. So, wherever a budget ends, the judged queries are a
    random sample, and the same for every cell of a grid.

    Args:
        metrics: Names of metrics. Names that are not in JUDGED are left out.
        observations: Results to judge. A query may have several; queries out of scope are left out.
        seed: Seed of the order of the queries.
    """
    ranks = {case_id: rank for rank, case_id in enumerate(judging_order((o.case for o in observations), seed))}
    judged = [o for o in observations if o.case.id in ranks and o.selection]
    questions: dict[tuple[str, str, Selected], Task] = {}
    for observation in sorted(judged, key=lambda o: ranks[o.case.id]):
        case, chunks = observation.case, observation.selection.chunks
        reference = case.reference_answer or ""
        for name, metric in JUDGED.items():
            if name not in metrics or (metric.needs_reference and not reference.strip()):
                continue
            for group in [[chunk] for chunk in chunks] if name == PRECISION else [chunks]:
                key = name, case.id, tuple(chunk.chunk_id for chunk in group)
                if key not in questions:
                    inputs = metric.inputs(case.query, reference, [chunk.text for chunk in group])
                    questions[key] = Task(*key, inputs)
    return [*questions.values()]


async def grade(task: Task, asker: Asker) -> Graded:
    """Let ragas' metric ask the judge.

    Args:
        task: Question to ask.
        asker: The judge. It must answer an equal prompt equally.
    """
    try:
        value, answers = await by_ragas(task.metric, task.inputs, asker)
    except UnansweredError as error:
        return error.outcome, ()
    except Exception as error:  # a metric that fails is shown as failed, beside the mean of the others
        return Failure(failed=f"{type(error).__name__}: {error}"), ()
    if not isfinite(value):
        return Failure(failed=f"NotFinite: ragas returned {value}"), ()
    if task.metric == PRECISION:
        return ChunkVerdict(**answers[0].model_dump()), ()
    statements = answers[0].classifications if task.metric == RECALL else ()
    return value, tuple(Claim(**statement.model_dump()) for statement in statements)


async def by_ragas(metric: str, inputs: Mapping[str, Any], asker: Asker) -> tuple[float, list[Any]]:
    """Return the value of ragas' metric, and the answers that it is computed from.

    Raises:
        UnansweredError: An answer is missing. (ragas' context relevance would ignore that, and average the others.)
        Exception: Any error of ragas.
    """
    from ragas.metrics import collections

    model = _model_of_ragas()(asker)
    metric_of_ragas = getattr(collections, JUDGED[metric].class_name)(llm=model)
    with suppress(UnansweredError):
        result = await metric_of_ragas.ascore(**inputs)
    if model.unanswered:
        raise model.unanswered
    return float(result.value), model.answers


@cache
def _model_of_ragas() -> Any:
    """Return the class that ragas takes for a model. It is made here, since the import of ragas takes seconds."""
    from ragas.llms.base import InstructorBaseRagasLLM

    class Asked(InstructorBaseRagasLLM):  # type: ignore[misc]  # ragas has no types
        """Passes prompts on to the judge, and keeps its answers or the reason why there is none."""

        def __init__(self, asker: Asker) -> None:
            self._asker = asker
            self.answers: list[Any] = []
            self.unanswered: UnansweredError | None = None

        async def agenerate(self, prompt: str, response_model: type[Schema]) -> Schema:
            try:
                answer = await self._asker.ask(prompt, response_model)
            except UnansweredError as error:
                self.unanswered = error
                raise
            self.answers.append(answer)
            return answer

        def generate(self, prompt: str, response_model: type[Schema]) -> Schema:
            raise NotImplementedError("the judge is asked with agenerate")

    return Asked
