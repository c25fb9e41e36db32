"""A check by ragas: its own classes score the results that are shown, and the report says where scores differ.

The metrics of a run are computed as arrays over all results, where ragas scores one result at a time. After the first
screen is printed, ragas is imported and scores the run, or the recommended cell of a grid. Its judged metrics take
their verdicts from the store of the run, so that no question is asked a second time.
"""

import asyncio
import warnings
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import version
from math import isclose, isnan
from typing import Any, Literal

from evals.collect.observations import Observation, Unscored
from evals.collect.passes import Progress
from evals.grid.measure import Measured
from evals.judge.answers import Schema
from evals.judge.asking import UnansweredError
from evals.judge.chat import Chat
from evals.judge.judge import Judge
from evals.judge.store import VerdictStore
from evals.judge.tasks import JUDGED, by_ragas
from evals.report.model import RagasCheck
from retrievers.text.shown import redacted

Scorer = Callable[[Observation], Awaitable[float]]

# Metric to the class of ragas.metrics that computes the same.
CLASSES: Mapping[str, str] = {
    "ragas/id_context_precision": "IDBasedContextPrecision",
    "ragas/id_context_recall": "IDBasedContextRecall",
    "ragas/nonllm_context_precision": "NonLLMContextPrecisionWithReference",
    "ragas/nonllm_context_recall": "NonLLMContextRecall",
}
# Largest difference of equal scores.
CLOSE = 1e-9
# Most queries that ragas scores (it takes 3 ms for each), and most differences that the report names.
MOST, NAMED = 1_000, 3


def pending(result: Measured) -> RagasCheck | None:
    """Return the mark of a report that ragas has not checked yet; None if no metric is one of ragas'."""
    metrics = [name for name in (*CLASSES, *JUDGED) if name in result.scores]
    return RagasCheck(status="pending") if metrics else None


def compare(result: Measured, judge: Judge | None, progress: Progress) -> RagasCheck:
    """Score the shown results by ragas' own classes, and compare these scores with those of the run.

    Empty results are left out: they score 0 here, and ragas refuses them or returns NaN. Scores that failed here are
    left out, too.

    Args:
        result: The run, or the recommended cell of a grid.
        judge: The judge of the run, with its store; None without a judge.
        progress: Called as queries are scored.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # given for the classes by ids and strings
            return asyncio.run(_compare(result, judge, progress))
    except Exception as error:  # an error of ragas, or of a library that it uses, must not lose the run
        fault = redacted(f"{type(error).__name__}: {error}").partition("\n")[0]
        return RagasCheck(status="unchecked", line=f"ragas {version('ragas')} compared nothing: {fault}")


async def _compare(result: Measured, judge: Judge | None, progress: Progress) -> RagasCheck:
    observations = [o for o in result.results.observations() if o.case.in_scope and o.selection][:MOST]
    texts = result.context.relevant_texts
    scorers = {name: _text_scorer(CLASSES[name], texts) for name in CLASSES if name in result.scores}
    if judge:
        stored = _Stored(judge.chat, judge.store)
        scorers |= {name: _verdict_scorer(name, stored) for name in JUDGED if name in result.scores}
    # By metric the number of compared scores; the differences as texts; and each reason for a missing score once.
    compared, differing, unscored = Counter[str](), list[str](), dict[str, None]()
    for done, observation in enumerate(observations, 1):
        for name, score in scorers.items():
            here = result.scores[name].get(observation.case.id)
            if not isinstance(here, float | int):
                continue
            try:
                theirs = await score(observation)
            except UnansweredError as error:
                unscored[f"{name}: {error}"] = None
                continue
            if not isnan(theirs):
                compared[name] += 1
                if not isclose(here, theirs, rel_tol=0, abs_tol=CLOSE):
                    differing.append(f"{name} of {observation.case.id} is {here:.6g} here, {theirs:.6g} by ragas")
        progress("checking by ragas", done, len(observations))
    total = compared.total()
    status: Literal["equal", "differs", "unchecked"] = "equal"
    metrics = "1 metric" if len(compared) == 1 else f"{len(compared)} metrics"
    line = f": equal in all {total:,} scores of {metrics}"
    if differing:
        status, line = "differs", f" scores {len(differing):,} of {total:,} otherwise: {', '.join(differing[:NAMED])}"
    elif not total:
        status, line = "unchecked", " compared nothing: no in-scope query with a chunk has a score"
    return RagasCheck(status=status, line="; ".join([f"ragas {version('ragas')}{line}", *unscored]))


def _text_scorer(class_name: str, texts: Mapping[str, str] | None) -> Scorer:
    """Return a function that scores a result by a class of ragas that needs no model.

    Args:
        class_name: Name of the class in `ragas.metrics`.
        texts: Chunk id to the text of every relevant chunk; None to compare with the quotes of the golden data.
    """
    from ragas import metrics
    from ragas.dataset_schema import SingleTurnSample

    class Similarity(metrics.NonLLMStringSimilarity):  # type: ignore[misc]
        async def single_turn_ascore(self, sample: Any, *_: object, **__: object) -> float:
            return float(await self._single_turn_ascore(sample, callbacks=[]))

    metric = getattr(metrics, class_name)()
    for measure in {"distance_measure", "_distance_measure"} & vars(metric).keys():
        setattr(metric, measure, Similarity())

    async def score(observation: Observation) -> float:
        relevant = list(observation.relevance.grades)
        sample = SingleTurnSample(
            retrieved_context_ids=list(observation.selection.chunk_ids),
            retrieved_contexts=[chunk.text for chunk in observation.selection.chunks],
            reference_context_ids=relevant,
            # The text of a relevant chunk that the collection lacks is empty, and so like no returned text.
            reference_contexts=observation.case.quotes if texts is None else [texts.get(key, "") for key in relevant],
        )
        # The public method computes the same, and writes a telemetry id into the user's home.
        return float(await metric._single_turn_ascore(sample, callbacks=[]))

    return score


def _verdict_scorer(name: str, stored: "_Stored") -> Scorer:
    """Return a function that scores a result by a judged metric of ragas, with stored verdicts."""

    async def score(observation: Observation) -> float:
        case, texts = observation.case, [chunk.text for chunk in observation.selection.chunks]
        inputs = JUDGED[name].inputs(case.query, case.reference_answer or "", texts)
        value, _ = await by_ragas(name, inputs, stored)
        return value

    return score


class _Stored:
    """In place of an engine: answers prompts by the verdicts in the store alone."""

    def __init__(self, chat: Chat, store: VerdictStore) -> None:
        self._chat, self._store = chat, store

    async def ask(self, prompt: str, schema: type[Schema]) -> Schema:
        verdict = self._store.get(self._chat.key(prompt, schema), schema, prompt)
        if verdict is None:
            raise UnansweredError(Unscored(reason="a verdict is not in the store"))
        return schema.model_validate_json(verdict)
