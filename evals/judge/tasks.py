"""The judge's tasks: one for each verdict, by ragas' own metric classes.

Context precision is asked chunk by chunk (ragas asks it one chunk at a time as well, but waits for each); the other
metrics are asked about a whole selection. Source: ragas 0.4.3, `ragas.metrics.collections`.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from evals.collect.observations import Failure, Observation, Score, Unscored
from evals.judge.asking import Asker, UnansweredError
from evals.judge.verdicts import ChunkVerdict, Claim, Selected
from evals.sampling.order import judging_order

PRECISION = "ragas/llm_context_precision"
RECALL = "ragas/llm_context_recall"
RELEVANCE = "ragas/llm_context_relevance"
ENTITY_RECALL = "ragas/llm_context_entity_recall"
FEWEST_LETTERS, STEM = 4, 5
# The scripts after it in Unicode put no space between words.
LAST_SPACED = "\u2e7f"


@dataclass(frozen=True, kw_only=True)
class JudgedMetric:
    """Question of a ragas metric.

    Attributes:
        class_name: Name of the class in `ragas.metrics.collections`.
        by_chunk: True if each chunk is a separate question.
        inputs: Question, reference answer and texts to the arguments of its `ascore`.
        needs_reference: True if it needs a reference answer.
        calls: Calls of the model that one task makes.
    """

    class_name: str
    by_chunk: bool
    inputs: Callable[[str, str, list[str]], dict[str, Any]]
    needs_reference: bool
    calls: int


def _full(question: str, reference: str, texts: list[str]) -> dict[str, Any]:
    return {"user_input": question, "reference": reference, "retrieved_contexts": texts}


def _question(question: str, _: str, texts: list[str]) -> dict[str, Any]:
    return {"user_input": question, "retrieved_contexts": texts}


def _reference(_: str, reference: str, texts: list[str]) -> dict[str, Any]:
    return {"reference": reference, "retrieved_contexts": texts}


# The metrics that a judge grades.
JUDGED: Mapping[str, JudgedMetric] = {
    PRECISION: JudgedMetric(
        class_name="ContextPrecisionWithReference", by_chunk=True, inputs=_full, needs_reference=True, calls=1
    ),
    RECALL: JudgedMetric(class_name="ContextRecall", by_chunk=False, inputs=_full, needs_reference=True, calls=1),
    RELEVANCE: JudgedMetric(
        class_name="ContextRelevance", by_chunk=False, inputs=_question, needs_reference=False, calls=2
    ),
    ENTITY_RECALL: JudgedMetric(
        class_name="ContextEntityRecall", by_chunk=False, inputs=_reference, needs_reference=True, calls=2
    ),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """One question to the judge: a metric on some chunks of a case."""

    metric: str
    case_id: str
    chunk_ids: Selected
    inputs: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Graded:
    """Result of a task: the value of ragas' metric, and the judge's verdicts on the parts."""

    value: Score
    verdict: ChunkVerdict | None = None
    claims: tuple[Claim, ...] = ()


def tasks(metrics: Collection[str], observations: Sequence[Observation], seed: int = 0) -> Iterator[Task]:
    """Yield what has to be asked, each question once, query by query in random order. Empty selections need no judge.

    All selections of a query are asked about before those of the next one, so that the queries which are judged when a
    budget ends are a random sample, and the same for every cell of a grid.

    Args:
        metrics: Names out of JUDGED; others are passed over.
        observations: Results to judge, of in-scope queries; several of one query are as many selections.
        seed: Seed of the order of the queries.
    """
    keys: set[tuple[str, str, Selected]] = set()
    places = {case_id: rank for rank, case_id in enumerate(judging_order((o.case for o in observations), seed))}
    inside = [observation for observation in observations if observation.case.id in places]
    for observation in sorted(inside, key=lambda observation: places[observation.case.id]):
        for name in (name for name in JUDGED if name in metrics):
            if why_not(name, observation) is None:
                for task in _of(name, observation):
                    key = (task.metric, task.case_id, task.chunk_ids)
                    if key not in keys:
                        keys.add(key)
                        yield task


def why_not(metric: str, observation: Observation) -> Score | None:
    """Return the score that needs no judge, or the reason for none; None when the judge has to be asked."""
    if not observation.case.in_scope:
        return Unscored(reason="out of scope")
    if JUDGED[metric].needs_reference and not (observation.case.reference_answer or "").strip():
        return Unscored(reason="the case has no reference answer")
    return None if observation.selection else 0.0


def selected(observation: Observation) -> Selected:
    """Return the chunk ids of a selection."""
    return observation.selection.chunk_ids


def _of(metric: str, observation: Observation) -> Iterator[Task]:
    how, case = JUDGED[metric], observation.case
    chunks = observation.selection.chunks
    for part in [[chunk] for chunk in chunks] if how.by_chunk else [chunks]:
        yield Task(
            metric=metric,
            case_id=case.id,
            chunk_ids=tuple(chunk.chunk_id for chunk in part),
            inputs=how.inputs(case.query, case.reference_answer or "", [chunk.text for chunk in part]),
        )


async def grade(task: Task, asker: Asker) -> Graded:
    """Let ragas' metric ask the judge.

    Args:
        task: Question to ask.
        asker: The judge; asked for the same prompt again, it must answer the same.
    """
    from ragas.metrics import collections

    from evals.judge.llm import RagasJudge

    judge = RagasJudge(asker)
    value: Score
    try:
        metric = getattr(collections, JUDGED[task.metric].class_name)(llm=judge)
        value = float((await metric.ascore(**task.inputs)).value)
    except UnansweredError:
        # Ignored: the judge remembers its failure.
        value = 0.0
    except Exception as error:  # a metric that fails is shown as failed, beside the mean of the others
        value = Failure(type=type(error).__name__, message=str(error))
    # Also where the metric swallowed the failure: its value covers only a part of the answers.
    if judge.unanswered:
        value = judge.unanswered.outcome
    elif isinstance(value, float) and not isfinite(value):
        value = Failure(type="NotFinite", message=f"ragas returned {value}")
    if isinstance(value, Failure | Unscored):
        return Graded(value=value)
    if task.metric == PRECISION:
        [said] = judge.answers
        return Graded(value=value, verdict=ChunkVerdict(verdict=int(said.verdict), reason=said.reason))
    if task.metric == RECALL:
        claims = tuple(
            Claim(statement=said.statement, attributed=int(said.attributed), reason=said.reason)
            for said in judge.answers[0].classifications
        )
        strangers = foreign(task.inputs["reference"], claims)
        return Graded(value=_malformed(strangers, claims, value) if strangers else value, claims=claims)
    return Graded(value=value)


def foreign(reference: str, claims: Sequence[Claim]) -> tuple[Claim, ...]:
    """Return the statements that share no word with a reference answer, if they are more than half of all.

    A small model copies the example of the prompt in place of the statements of the answer. Words are those of four
    letters and more, by their first five, and all that hold a digit; of scripts without spaces, pairs of characters.

    Args:
        reference: The reference answer.
        claims: The judge's statements in one answer.
    """
    words = _words(reference)
    strangers = tuple(claim for claim in claims if words.isdisjoint(_words(claim.statement)))
    return strangers if words and 2 * len(strangers) > len(claims) else ()


def _words(text: str) -> set[str]:
    words: set[str] = set()
    for word in re.findall(r"\w+", text.casefold()):
        if any(character > LAST_SPACED for character in word):
            words.update(word[start : start + 2] for start in range(max(1, len(word) - 1)))
        elif len(word) >= FEWEST_LETTERS or any(map(str.isdigit, word)):
            words.add(word[:STEM])
    return words


def _malformed(strangers: Sequence[Claim], claims: Sequence[Claim], value: float) -> Failure:
    return Failure(
        type="Malformed",
        message=f"{len(strangers)} of {len(claims)} statements share nothing with the reference answer, such as "
        f"{strangers[0].statement[:80]!r}; ragas' own value is {value:g}",
    )
