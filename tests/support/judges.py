"""Judges against the loopback, and prompts to ask them."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from ragas.metrics.collections.context_precision.util import ContextPrecisionOutput

from evals.collect.observations import Failure, Unscored
from evals.config.judge import JudgeConfig
from evals.judge.asking import Engine, UnansweredError
from evals.judge.budget import Account, Budget
from evals.judge.chat import make_chat
from evals.judge.store import VerdictStore
from tests.support.chat_server import MODEL, ChatServer, CohereChatServer, OpenAIChatServer
from tests.support.one_question import prompt

TEXTS = [f"passage number {n}" for n in range(400)]


def settings(server: ChatServer | None, **changes: Any) -> JudgeConfig:
    """Return the settings of a judge behind a server; cohere's or openai's client, by the server's protocol."""
    where: dict[str, Any] = {}
    if isinstance(server, CohereChatServer):
        where = {"model": f"cohere:{MODEL}", "base_url": server.url}
    elif isinstance(server, OpenAIChatServer):
        where = {"model": f"openai:{MODEL}", "base_url": server.base_url}
    return JudgeConfig.model_validate({**where, "timeout_s": 10, **changes})


def keys(server: ChatServer) -> dict[str, str]:
    """Return the environment that holds the key of a server."""
    return {"COHERE_API_KEY": server.key, "OPENAI_API_KEY": server.key}


@contextmanager
def engine(server: ChatServer, store: Path | VerdictStore | None = None, **changes: Any) -> Iterator[Engine]:
    """Yield an engine that asks the server; a store that is given open stays open."""
    config = settings(server, **changes)
    with ExitStack() as stack:
        opened = stack.enter_context(closing(VerdictStore(store))) if isinstance(store, Path) else store
        yield Engine(make_chat(config, keys(server)), config, opened, Account(config, Budget(config.budget)))


@contextmanager
def later_engine(server: ChatServer, **changes: Any) -> Iterator[Engine]:
    """Yield an engine in a run that has had answers before."""
    config = settings(server, **changes)
    account = Account(config, Budget(config.budget))
    account.count(tokens_in=1, tokens_out=1)
    yield Engine(make_chat(config, keys(server)), config, None, account)


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

    return asyncio.run(made.run(in_turn()))


def verdicts(said: Sequence[Said]) -> list[int | str]:
    """Return the verdicts; in place of those that are missing the type of the failure, or `unscored`."""
    return [one.type if isinstance(one, Failure) else getattr(one, "verdict", "unscored") for one in said]
