"""Judges against the loopback, and prompts to ask them."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from ragas.metrics.collections.context_precision.util import ContextPrecisionOutput

from evals.judge.budget import Ledger
from evals.judge.cache import VerdictStore
from evals.judge.chat import make_chat
from evals.judge.config import JudgeConfig
from evals.judge.engine import Engine, Outcome, UnansweredError
from tests.support.chat_server import MODEL, ChatServer, CohereChatServer
from tests.support.one_question import prompt
from tests.support.openai_server import OpenAIChatServer

TEXTS = [f"passage number {n}" for n in range(400)]


def settings(server: ChatServer | None, **changes: Any) -> JudgeConfig:
    """The settings of a judge behind a server; cohere's or openai's client, by the server's protocol."""
    where: dict[str, Any] = {}
    if isinstance(server, CohereChatServer):
        where = {"model": f"cohere:{MODEL}", "base_url": server.url}
    elif isinstance(server, OpenAIChatServer):
        where = {"model": f"openai:{MODEL}", "base_url": server.base_url}
    return JudgeConfig.model_validate({**where, "timeout_s": 10, "deadline_s": 30, **changes})


def keys(server: ChatServer) -> dict[str, str]:
    """The environment that holds the key of a server."""
    return {"COHERE_API_KEY": server.key, "OPENAI_API_KEY": server.key}


@contextmanager
def engine(server: ChatServer, store: Path | None = None, **changes: Any) -> Iterator[Engine]:
    """An engine that asks the server."""
    config = settings(server, **changes)
    kept = VerdictStore(store) if store else None
    with Engine(make_chat(config, keys(server)), config, kept, Ledger(config.budget, config.price)) as made:
        yield made
    if kept:
        kept.close()


def ask(
    made: Engine, texts: Sequence[str], schema: type[BaseModel] = ContextPrecisionOutput
) -> list[BaseModel | Outcome]:
    """Ask about all passages at once; the verdicts, or why there is none, in their order."""

    async def one(text: str) -> BaseModel | Outcome:
        try:
            return await made.ask(prompt(text), schema)
        except UnansweredError as error:
            return error.outcome

    async def together() -> list[BaseModel | Outcome]:
        return await asyncio.gather(*(one(text) for text in texts))

    return asyncio.run(together())
