"""How a chat model's server fails: at the protocol (429, reset, HTML, …) or in what the model says; and when."""

import json
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from tests.support.judging import drawn

WRONG_VERDICT = 7
REFUSAL = "I'm sorry, but I can't help with judging that passage."
HTML = "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"


@dataclass(frozen=True, kw_only=True)
class Output:
    """Answer of the model: its text, and its end: natural, at the limit of tokens, or a refusal.

    Attributes:
        filtered: A filter of the provider's took the answer away.
    """

    text: str
    cut: bool = False
    refused: bool = False
    filtered: bool = False


@dataclass(frozen=True, kw_only=True)
class ChatFault:
    """One way to fail.

    Attributes:
        status: Answer with this HTTP status and an error as the provider words it.
        headers: Computed when the fault is due: a date moves on.
        html: Answer with a page of a proxy in place of JSON.
        sent: How much of the right answer is sent before the connection is reset; less than 0: not even its head.
        drip_s: Seconds that the right answer takes to come, a few bytes at a time.
        message: Of an error, in place of the usual one.
        body: How much of the right answer's JSON there is, in a reply that is whole as far as HTTP goes.
        stall: Keep the client waiting until the server stops or the fault is over, and then answer rightly.
        says: What the model says in place of the right answer.
    """

    status: int | None = None
    headers: Callable[[], Mapping[str, str]] = dict
    html: bool = False
    sent: float = 1.0
    drip_s: float = 0.0
    message: str = ""
    body: float = 1.0
    stall: bool = False
    says: Callable[[Output], Output] | None = None


@dataclass(frozen=True, kw_only=True)
class When:
    """Which chat requests a fault befalls: all of `calls`, and of these the share.

    Attributes:
        calls: Numbers, counted from 1 since the fault was set: `range(3, 6)` are the third to the fifth. None: all.
        share: Of 0 … 1, drawn with `seed`.
        by_prompt: Draw by what is asked, so that the same request fails every time it is repeated; else by number, so
            that a repeated request may succeed.
    """

    calls: Container[int] | None = None
    share: float = 1.0
    by_prompt: bool = False
    seed: int = 0

    def due(self, number: int, prompt: str) -> bool:
        if self.calls is not None and number not in self.calls:
            return False
        return drawn(self.seed, "fault", prompt if self.by_prompt else str(number)) < self.share


ALWAYS = When()


@dataclass(kw_only=True)
class Planned:
    """A fault with its time; `requests` are those that came since it was set, `hits` those that it befell."""

    fault: ChatFault
    when: When
    requests: int = 0
    hits: list[int] = field(default_factory=list)

    def falls_due(self, prompt: str) -> bool:
        self.requests += 1
        due = self.when.due(self.requests, prompt)
        if due:
            self.hits.append(self.requests)
        return due


def too_many(seconds: float | None = None) -> ChatFault:
    """Return 429, with the seconds to wait in `Retry-After`."""
    return ChatFault(status=429, headers=lambda: {} if seconds is None else {"Retry-After": f"{seconds:g}"})


def says(text: str) -> ChatFault:
    """Let the model answer with this alone."""
    return ChatFault(says=lambda _: Output(text=text))


def around(before: str, after: str) -> ChatFault:
    """Let the model answer correctly in the midst of other text."""
    return ChatFault(says=lambda right: Output(text=f"{before}{right.text}{after}"))


def _cut(right: Output) -> Output:
    return Output(text=right.text[: len(right.text) // 2], cut=True)


def _wrong_verdict(right: Output) -> Output:
    return Output(text=json.dumps(_put(json.loads(right.text), WRONG_VERDICT)))


def _put(value: Any, verdict: int) -> Any:
    if isinstance(value, list):
        return [_put(one, verdict) for one in value]
    if isinstance(value, dict):
        return {
            key: verdict if key in ("verdict", "attributed", "rating") else _put(one, verdict)
            for key, one in value.items()
        }
    return value


PROTOCOL = MappingProxyType(
    {
        "401": ChatFault(status=401),
        "404": ChatFault(status=404),
        "429": too_many(),
        "500": ChatFault(status=500),
        "503": ChatFault(status=503),
        "502 HTML": ChatFault(status=502, html=True),
        "200 HTML": ChatFault(status=200, html=True),
        "reset": ChatFault(sent=-1.0),
        "torn": ChatFault(sent=0.5),
        "truncated": ChatFault(body=0.5),
        "slow": ChatFault(stall=True),
    }
)
"""Faults between the client and the model."""
SPOKEN = MappingProxyType(
    {
        "cut": ChatFault(says=_cut),
        "prose around": around("Sure! Here is my verdict:\n\n", "\n\nLet me know if you need anything else."),
        "braces around": around("For the set {a, b} I say:\n", "\nwhere {a} is the question."),
        "fenced": around("```json\n", "\n```"),
        "verdict 7": ChatFault(says=_wrong_verdict),
        "refusal": ChatFault(says=lambda _: Output(text=REFUSAL, refused=True)),
        "empty": says(""),
        "prose": says("The passage looks rather useful to me."),
        "wrong keys": says('{"answer": "yes", "score": 1}'),
        "null": says("null"),
        "verdict in words": says('{"reason": "it helps", "verdict": "useful", "rating": "high"}'),
        "NaN": says('{"reason": "it helps", "verdict": NaN, "rating": NaN}'),
    }
)
"""Faults of the model: what it says, in a reply that is otherwise in order."""
FAULTS = MappingProxyType({**PROTOCOL, **SPOKEN})


FILTERED = ChatFault(says=lambda _: Output(text="", filtered=True))
