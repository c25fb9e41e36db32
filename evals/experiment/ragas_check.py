"""ragas' own classes on the results that are shown: the figures computed here are theirs, and the report says so.

The metrics of a run are arrays over all results, and equal ragas' one result at a time. After the first screen is out,
ragas is imported and scores the run, or the recommended cell of a grid, by itself. Its judged metrics get their
verdicts from the store of the run: nothing is asked a second time.
"""

import asyncio
import warnings
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import version
from math import isclose, isnan
from typing import Any, Literal, TypeVar

from pydantic import BaseModel

from evals.collect.observations import Observation, Unscored
from evals.collect.passes import Progress
from evals.grid.measure import Measured
from evals.judge.asking import UnansweredError
from evals.judge.chat import Chat
from evals.judge.judge import Judge
from evals.judge.store import VerdictStore
from evals.judge.tasks import JUDGED, by_ragas
from evals.report.model import RagasCheck
from retrievers.text.shown import redacted

Schema = TypeVar("Schema", bound=BaseModel)
Scorer = Callable[[Observation], Awaitable[float]]

# Classes of ragas.metrics, by the metric that equals them.
CLASSES: Mapping[str, str] = {
    "ragas/id_context_precision": "IDBasedContextPrecision",
    "ragas/id_context_recall": "IDBasedContextRecall",
    "ragas/nonllm_context_precision": "NonLLMContextPrecisionWithReference",
    "ragas/nonllm_context_recall": "NonLLMContextRecall",
}
CLOSE = 1e-9
# Queries that ragas scores, which takes it 3 ms each; differences that the report names.
MOST, NAMED = 1_000, 3


def pending(result: Measured) -> RagasCheck | None:
    """Return the mark of a report whose scores ragas has not seen yet; None where no metric is one of ragas'."""
    metrics = [name for name in (*CLASSES, *JUDGED) if name in result.scores]
    return RagasCheck(status="pending") if metrics else None


def checked(result: Measured, judge: Judge | None, progress: Progress) -> RagasCheck:
    """Score the shown results by ragas' own classes, and return the scores that differ from the run's.

    Results without a chunk, which ragas refuses or scores NaN and which are 0 here, are left out, and so are scores
    that failed here.

    Args:
        result: The run, or the recommended cell of a grid.
        judge: The judge of the run with its store, where there is one.
        progress: Called as queries are scored.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of the classes by ids and strings
            return asyncio.run(_compared(result, judge, progress))
    except Exception as error:  # whatever ragas or one of its dependencies raises, the run is measured and saved
        said = redacted(f"{type(error).__name__}: {error}").partition("\n")[0]
        return RagasCheck(status="unchecked", line=f"ragas {version('ragas')} compared nothing: {said}")


async def _compared(result: Measured, judge: Judge | None, progress: Progress) -> RagasCheck:
    shown = [one for one in result.results.observations() if one.case.in_scope and one.selection][:MOST]
    texts = result.context.relevant_texts or {}
    scorers = {name: _of_class(CLASSES[name], texts) for name in CLASSES if name in result.scores}
    if judge:
        kept = _Kept(judge.chat, judge.store)
        scorers |= {name: _of_verdicts(name, kept) for name in JUDGED if name in result.scores}
    compared, differing, unscored = Counter[str](), list[str](), dict[str, None]()
    for done, one in enumerate(shown, 1):
        for name, score in scorers.items():
            here = result.scores[name].get(one.case.id)
            if not isinstance(here, float | int):
                continue
            try:
                theirs = await score(one)
            except UnansweredError as error:
                unscored[f"{name}: {error}"] = None
                continue
            if not isnan(theirs):
                compared[name] += 1
                if not isclose(here, theirs, rel_tol=0, abs_tol=CLOSE):
                    differing.append(f"{name} of {one.case.id} is {here:.6g} here, {theirs:.6g} by ragas")
        progress("checking by ragas", done, len(shown))
    total = compared.total()
    status: Literal["equal", "differs", "unchecked"] = "equal"
    line = f": equal ({total:,} scores by its {len(compared)} classes)"
    if differing:
        status, line = "differs", f" scores {len(differing):,} of {total:,} otherwise: {', '.join(differing[:NAMED])}"
    elif not total:
        status, line = "unchecked", " compared nothing: no in-scope query with a chunk has a score"
    return RagasCheck(status=status, line="; ".join([f"ragas {version('ragas')}{line}", *unscored]))


def _of_class(class_name: str, texts: Mapping[str, str]) -> Scorer:
    """Return what scores a result by a class of ragas that needs no model."""
    from ragas import metrics
    from ragas.dataset_schema import SingleTurnSample

    class Similarity(metrics.NonLLMStringSimilarity):  # type: ignore[misc]
        async def single_turn_ascore(self, sample: Any, *_: object, **__: object) -> float:
            return float(await self._single_turn_ascore(sample, callbacks=[]))

    metric = getattr(metrics, class_name)()
    for measure in {"distance_measure", "_distance_measure"} & vars(metric).keys():
        setattr(metric, measure, Similarity())

    async def score(one: Observation) -> float:
        relevant = list(one.relevance.grades)
        sample = SingleTurnSample(
            retrieved_context_ids=list(one.selection.chunk_ids),
            retrieved_contexts=[chunk.text for chunk in one.selection.chunks],
            reference_context_ids=relevant,
            # A relevant chunk that the collection lacks is like nothing that was returned.
            reference_contexts=[texts.get(key, "") for key in relevant],
        )
        # Their public twins compute the same, and write an id of the user into his home for telemetry.
        return float(await metric._single_turn_ascore(sample, callbacks=[]))

    return score


def _of_verdicts(name: str, kept: "_Kept") -> Scorer:
    """Return what scores a result by a class of ragas with the verdicts that are kept for its model's."""

    async def score(one: Observation) -> float:
        texts = [chunk.text for chunk in one.selection.chunks]
        value, _ = await by_ragas(
            name, JUDGED[name].inputs(one.case.query, one.case.reference_answer or "", texts), kept
        )
        return value

    return score


class _Kept:
    """Answers the prompts of ragas with the verdicts that are in the store, and nothing else."""

    def __init__(self, chat: Chat, store: VerdictStore) -> None:
        self._chat, self._store = chat, store

    async def ask(self, prompt: str, schema: type[Schema]) -> Schema:
        kept = self._store.get(self._chat.key(prompt, schema), schema, prompt)
        if kept is None:
            raise UnansweredError(Unscored(reason="a verdict is not in the store"))
        return schema.model_validate_json(kept)
