"""One request to the judge, in a thread: it asks, reads, and stores the verdict before the next request."""

import logging
import time
from dataclasses import dataclass

from pydantic import BaseModel

from evals.config.judge import JudgeConfig
from evals.errors import JudgeError
from evals.judge.ask.budget import Tokens
from evals.judge.ask.cache import Stored, VerdictStore
from evals.judge.ask.chat import Chat
from evals.judge.ask.faults import Fault, explain, read_fault, rejects_structure
from evals.judge.ask.parse import MalformedError, read_verdict
from retrievers.embedding.tokens import count_tokens
from retrievers.text.secrets import without_secrets

# Seconds that a call may exceed its time: the timeout of the provider's library comes first and ends the connection.
GRACE_S = 0.25
log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Reply:
    """Result of one request: a verdict (as JSON), an answer that is not a verdict, or a fault.

    Attributes:
        tokens: Read and written; estimated where the provider does not tell, None where no answer came but one may be
            billed.
        seconds: Duration of the request.
        unkept: Reason why the verdict could not be stored, empty when it was.
        plain: The server takes no request for JSON, and was not asked the question; it can be asked without.
    """

    verdict: str = ""
    malformed: MalformedError | None = None
    fault: Fault | None = None
    tokens: Tokens | None = (0, 0)
    seconds: float = 0.0
    unkept: str = ""
    plain: bool = False


def late(seconds: float) -> Reply:
    """Return the reply of a call that has taken too long."""
    return Reply(fault=read_fault(TimeoutError()), tokens=None, seconds=seconds)


class Caller:
    """Makes requests, from any number of threads."""

    def __init__(self, chat: Chat, config: JudgeConfig, store: VerdictStore | None) -> None:
        self._chat, self._store = chat, store
        self._structured = config.structured != "off"
        self._finds_out = config.structured == "auto"

    def call(self, key: bytes, text: str, schema: type[BaseModel], timeout_s: float) -> Reply:
        """Make one request and read the answer.

        Args:
            key: Under which the verdict is kept.
            text: The whole prompt.
            schema: Response schema.
            timeout_s: Seconds to wait for the whole answer; one that comes later is dropped.
        """
        start = time.monotonic()
        structured = self._structured
        try:
            answer = self._chat.ask(text, schema, timeout_s, structured=structured)
        except Exception as error:  # every provider has its own tree
            seconds = time.monotonic() - start
            if structured and self._finds_out and rejects_structure(error):
                return self._without_structure(error, seconds)
            fault = read_fault(error)
            return Reply(fault=fault, tokens=None if fault.billed else (0, 0), seconds=seconds)
        # No task waits for it any more.
        if (seconds := time.monotonic() - start) > timeout_s + GRACE_S:
            return late(seconds)
        # Some providers give no counts; the packaged tokenizer estimates them, so that a budget still holds.
        tokens = (
            count_tokens(text) if answer.tokens_in is None else answer.tokens_in,
            count_tokens(answer.text) if answer.tokens_out is None else answer.tokens_out,
        )
        try:
            # Again: the answer may have spelled a secret with escapes of JSON.
            verdict = without_secrets(read_verdict(answer, schema).model_dump_json())
        except MalformedError as error:
            return Reply(malformed=error, tokens=tokens, seconds=time.monotonic() - start)
        unkept = self._keep(key, schema, verdict, tokens)
        return Reply(verdict=verdict, tokens=tokens, seconds=time.monotonic() - start, unkept=unkept)

    def _without_structure(self, error: Exception, seconds: float) -> Reply:
        # Several threads may find out at once; only the first one reports it.
        if self._structured:
            self._structured = False
            message = explain(error)
            log.warning("the judge's server takes no request for JSON; it is read out of the text instead: %s", message)
        return Reply(plain=True, seconds=seconds)

    def _keep(self, key: bytes, schema: type[BaseModel], verdict: str, tokens: Tokens) -> str:
        """Commit a verdict; return the reason where that fails, empty when it succeeds."""
        model = f"{self._chat.provider}:{self._chat.name}"
        stored = Stored(model=model, kind=schema.__name__, answer=verdict, tokens_in=tokens[0], tokens_out=tokens[1])
        try:
            if self._store:
                self._store.put(key, stored)
        except JudgeError as error:
            return str(error)
        return ""
