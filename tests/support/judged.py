"""Selections of a small world whose judge knows everything, and what ragas' own classes say of them."""

import asyncio
import random
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel
from ragas.llms.base import InstructorBaseRagasLLM
from ragas.metrics import collections

from evals.collect.observations import Failure, Observation, Unscored
from evals.judge.asking import UnansweredError
from evals.judge.budget import Usage
from evals.judge.judge import Judge
from evals.judge.tasks import ENTITY_RECALL, JUDGED, PRECISION, RECALL, RELEVANCE
from evals.judge.verdicts import Judging
from tests.support.chat_server import ChatServer
from tests.support.judges import keys, settings
from tests.support.judging import Flaws, Labels, Oracle
from tests.support.results import hit, observation

Schema = TypeVar("Schema", bound=BaseModel)
ALL = (PRECISION, RECALL, RELEVANCE, ENTITY_RECALL)
FORWARD = "Forward kinematics multiplies the transforms of Denavit and Hartenberg."
INVERSE = "Inverse kinematics searches joint angles; near a singularity they jump, as Jacobi says."
TOPIC = "A topic is a named channel of ROS."
ACTION = "An action of ROS reports progress, and may be cancelled."
SOUP = "Onion soup takes an hour in Paris."
TEXTS = {"forward": FORWARD, "inverse": INVERSE, "topic": TOPIC, "action": ACTION, "soup": SOUP, "twin": FORWARD}
"""Chunk id to text; two chunks say the same."""
ENTITIES = {"Denavit", "Hartenberg", "Jacobi", "ROS", "Paris"}
QUERIES = {
    "pose": ("How does an arm reach a pose?", {"It multiplies transforms.": [FORWARD], "It searches.": [INVERSE]}),
    "talk": ("How do nodes talk?", {"By topics of ROS.": [TOPIC], "By actions.": [ACTION], "By letter to Jacobi.": []}),
    "soup": ("What is eaten in Paris?", {"Soup is eaten in Paris.": [SOUP]}),
}  # fmt: skip
LABELS = {
    query: Labels(useful={text for texts in claims.values() for text in texts}, claims=claims)
    for query, claims in QUERIES.values()
}


def oracle(**flaws: float) -> Oracle:
    """Return the oracle of this world; with flaws a judge that always errs in the same places."""
    return Oracle(LABELS, entities=ENTITIES, flaws=Flaws(**flaws))  # type: ignore[arg-type]


def observe(case: str, chunk_ids: Sequence[str], **values: Any) -> Observation:
    """Return a query of the world and the chunks that it returned."""
    query, claims = QUERIES[case]
    hits = [hit(rank, 1 / rank, name, text=TEXTS[name]) for rank, name in enumerate(chunk_ids, 1)]
    given: dict[str, Any] = {"query": query, "reference_answer": " ".join(claims)}
    return observation(case, hits, len(hits), {"forward": 1}, **(given | values))


def random_observations(count: int, seed: int) -> Iterator[Observation]:
    """Yield selections of one to six chunks, with repeats."""
    draw = random.Random(seed)
    for _ in range(count):
        chunk_ids = draw.choices([*TEXTS], k=draw.randint(1, 6))
        yield observe(draw.choice([*QUERIES]), chunk_ids)


class PlainJudge(InstructorBaseRagasLLM):  # type: ignore[misc]
    """The least that can stand between ragas' metrics and an oracle: prompts and answers pass through as they are."""

    def __init__(self, known: Oracle) -> None:
        self._known = known

    def generate(self, prompt: str, response_model: type[BaseModel]) -> BaseModel:
        return response_model.model_validate_json(self._known.answer(prompt) or "")

    async def agenerate(self, prompt: str, response_model: type[BaseModel]) -> BaseModel:
        return self.generate(prompt, response_model)


def by_ragas(metric: str, one: Observation, known: Oracle) -> float:
    """Return the value of ragas' metric for the whole selection, computed by ragas alone."""
    how, texts = JUDGED[metric], [found.chunk.text for found in one.selection]
    inputs = how.inputs(one.case.query, one.case.reference_answer or "", texts)
    return float(asyncio.run(getattr(collections, how.class_name)(llm=PlainJudge(known)).ascore(**inputs)).value)


class Known:
    """Answers prompts from the oracle without a model; `fails` is what becomes of the n-th prompt, from 1."""

    def __init__(self, known: Oracle, fails: Mapping[int, Failure | Unscored | Exception] | None = None) -> None:
        self.prompts: list[str] = []
        self._known, self._fails = known, fails or {}

    async def ask(self, prompt: str, schema: type[Schema]) -> Schema:
        self.prompts.append(prompt)
        await asyncio.sleep(0)
        fault = self._fails.get(len(self.prompts))
        if isinstance(fault, Exception):
            raise fault
        if fault:
            raise UnansweredError(fault)
        return schema.model_validate_json(self._known.answer(prompt) or "")


@contextmanager
def judge_of(
    server: ChatServer,
    store: Path | None = None,
    told: Any = None,
    env: Mapping[str, str] | None = None,
    **changes: Any,
) -> Iterator[Judge]:
    """Yield a judge that asks the server; without a file its verdicts are in one of their own."""
    with tempfile.TemporaryDirectory() as folder:
        changes["cache_path"] = store or Path(folder) / "verdicts.sqlite"
        made = Judge.open(settings(server, **changes), env or keys(server), told or (lambda done, total, usage: None))
        try:
            yield made
        finally:
            made.close()


def judging(**values: Any) -> Judging:
    """Return verdicts of a judge, made by hand."""
    return replace(Judging(model="cohere:command", verdicts={}, scores={}, claims={}, usage=Usage()), **values)
