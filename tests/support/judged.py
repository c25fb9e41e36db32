"""Judges against the loopback: one question, an engine, a world whose judge knows everything, and ragas' own say."""

import asyncio
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from ragas.llms.base import InstructorBaseRagasLLM
from ragas.metrics import collections
from ragas.metrics.collections.context_precision.util import (
    ContextPrecisionInput,
    ContextPrecisionOutput,
    ContextPrecisionPrompt,
)

from evals.collect.observations import Failure, Observation, Unscored
from evals.config.judge import JudgeConfig
from evals.judge.asking import Engine, UnansweredError
from evals.judge.budget import Account, Usage
from evals.judge.chat import make_chat
from evals.judge.judge import Judge
from evals.judge.store import VerdictStore
from evals.judge.tasks import ENTITY_RECALL, JUDGED, PRECISION, RECALL, RELEVANCE
from evals.judge.verdicts import Judging
from tests.support.chat_server import KEYS, MODEL, ChatServer, CohereChatServer, OpenAIChatServer
from tests.support.judging import Labels, Oracle
from tests.support.results import hit, observation

PROTOCOLS = [
    pytest.param(CohereChatServer, id="cohere"),
    pytest.param(OpenAIChatServer, id="openai", marks=pytest.mark.slow),
]

# One query with a useful and a useless passage

QUERY = "q"
USEFUL, USELESS = "Inverse kinematics searches joint angles.", "A topic is a named channel."
CLAIM = "It searches angles."
ORACLE = Oracle({QUERY: Labels(useful={USEFUL}, claims={CLAIM: [USEFUL]})})
REASON = "The context is useful for 'q'."
RIGHT = f'{{"reason": "{REASON}", "verdict": 1}}'
"""What the oracle answers about the useful passage."""


def prompt(context: str = USEFUL) -> str:
    asked = ContextPrecisionInput(question=QUERY, context=context, answer=CLAIM)
    text: str = ContextPrecisionPrompt().to_string(asked)
    return text


# Asking

TEXTS = [f"passage number {n}" for n in range(400)]


def settings(server: ChatServer | None, **changes: Any) -> JudgeConfig:
    where = {"model": f"{server.provider}:{MODEL}", "base_url": server.base_url} if server else {}
    return JudgeConfig.model_validate({**where, "timeout_s": 10, **changes})


@contextmanager
def engine(
    server: ChatServer, store: Path | VerdictStore | None = None, later: bool = False, **changes: Any
) -> Iterator[Engine]:
    """Yield an engine that asks the server, `later` in a run that has had answers before.

    A store that is given open stays open, and without one it has its own.
    """
    config = settings(server, **changes)
    account = Account(config)
    if later:
        account.count(tokens_in=1, tokens_out=1)
    with ExitStack() as stack:
        if not isinstance(store, VerdictStore):
            file = store or Path(stack.enter_context(tempfile.TemporaryDirectory())) / "verdicts.sqlite"
            store = stack.enter_context(closing(VerdictStore(file)))
        yield Engine(make_chat(config, KEYS), config, store, account)


Said = BaseModel | Failure | Unscored


def ask(made: Engine, *batches: Sequence[str], schema: type[BaseModel] = ContextPrecisionOutput) -> list[Said]:
    """Ask about all passages of a batch at once, batch after batch; verdicts, or why there is none, in their order."""

    async def one(text: str) -> Said:
        try:
            return await made.ask(prompt(text), schema)
        except UnansweredError as error:
            return error.outcome

    async def in_turn() -> list[Said]:
        return [said for batch in batches for said in await asyncio.gather(*(one(text) for text in batch))]

    return asyncio.run(made.run(in_turn))


def verdicts(said: Sequence[Said]) -> list[int | str]:
    return [
        one.failed.partition(":")[0] if isinstance(one, Failure) else getattr(one, "verdict", "unscored")
        for one in said
    ]


# A small world

ALL = (PRECISION, RECALL, RELEVANCE, ENTITY_RECALL)
FORWARD = "Forward kinematics multiplies the transforms of Denavit and Hartenberg."
INVERSE = "Inverse kinematics searches joint angles; near a singularity they jump, as Jacobi says."
TOPIC = "A topic is a named channel of ROS."
ACTION = "An action of ROS reports progress, and may be cancelled."
SOUP = "Onion soup takes an hour in Paris."
CHUNKS = {"forward": FORWARD, "inverse": INVERSE, "topic": TOPIC, "action": ACTION, "soup": SOUP, "twin": FORWARD}
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


def oracle(**flaws: Any) -> Oracle:
    return Oracle(LABELS, ENTITIES, **flaws)


def observe(case: str, chunk_ids: Sequence[str], **values: Any) -> Observation:
    query, claims = QUERIES[case]
    hits = [hit(rank, 1 / rank, name, text=CHUNKS[name]) for rank, name in enumerate(chunk_ids, 1)]
    given: dict[str, Any] = {"query": query, "reference_answer": " ".join(claims)}
    return observation(case, hits, len(hits), {"forward": 1}, **(given | values))


class Known(InstructorBaseRagasLLM):  # type: ignore[misc]
    """Answers prompts from the oracle without a model; `fails` is what becomes of the n-th prompt, from 1."""

    def __init__(self, known: Oracle, fails: Mapping[int, Failure | Unscored | Exception] | None = None) -> None:
        self.prompts: list[str] = []
        self._known, self._fails = known, fails or {}

    async def agenerate(self, prompt: str, response_model: type[BaseModel]) -> Any:
        self.prompts.append(prompt)
        fault = self._fails.get(len(self.prompts))
        if isinstance(fault, Exception):
            raise fault
        if fault:
            raise UnansweredError(fault)
        return response_model.model_validate_json(self._known.answer(prompt) or "")

    ask = agenerate
    generate = None


def by_ragas(metric: str, one: Observation, known: Oracle) -> float:
    how, texts = JUDGED[metric], [found.chunk.text for found in one.selection]
    inputs = how.inputs(one.case.query, one.case.reference_answer or "", texts)
    return float(asyncio.run(getattr(collections, how.class_name)(llm=Known(known)).ascore(**inputs)).value)


@contextmanager
def judge_of(server: ChatServer, store: Path | None = None, told: Any = None, **changes: Any) -> Iterator[Judge]:
    """Yield a judge that asks the server; without a file its verdicts are in one of their own."""
    with tempfile.TemporaryDirectory() as folder:
        config = settings(server, cache_path=store or Path(folder) / "verdicts.sqlite", **changes)
        with closing(Judge.open(config, KEYS, told)) as made:
            yield made


def judging(**values: Any) -> Judging:
    return replace(Judging(model="cohere:command", verdicts={}, scores={}, claims={}, usage=Usage()), **values)
