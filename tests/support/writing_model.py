"""A chat model on the loopback that writes golden queries and judges them, in one of several manners.

It knows the type of a request by the schema that comes with it, and the passages by the marks around them.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from tests.support.chat_server import ChatRequest, OpenAIChatServer, Output
from tests.support.judging import Oracle
from tests.support.loopback import Reply

PASSAGE = re.compile(r'<passage number="(\d+)" place="([^"]*)">\n(.*?)\n</passage>', re.DOTALL)
Manner = Callable[[str, str], Any]
"""Schema name and prompt to an answer: a record, or a text as it is."""


def words_of(text: str) -> list[str]:
    found = dict.fromkeys(re.findall(r"[a-z]{6,}", text.lower()))
    return sorted(found, key=lambda word: hashlib.sha256(f"{word}{text}".encode()).hexdigest())


def well(schema: str, prompt: str) -> Any:
    passages = [text for _, _, text in PASSAGE.findall(prompt)]
    match schema:
        case "DraftCase":
            query = " ".join(["Which", *words_of("".join(passages))[:6]]) + "?"
            quotes = [max(text.splitlines(), key=len) for text in passages]
            return {"query": query, "reference_answer": " ".join(quotes), "quotes": quotes}
        case "DraftQuery":
            return {"query": f"Which {' '.join(words_of(prompt[::-1])[:6])} costs least in Tuvalu?"}
        case "Review":
            return {"reason": "", "follows": 1, "standalone": 1}
    return {"reason": "", "standalone": 1, "answering": []}


def copies(schema: str, prompt: str) -> Any:
    answer = well(schema, prompt)
    return {**answer, "query": " ".join(answer["quotes"][0].split()[:50])} if schema == "DraftCase" else answer


def judges(schema: str, **verdict: Any) -> Manner:
    return lambda asked, prompt: {**well(asked, prompt), **(verdict if asked == schema else {})}


class WritingModel(OpenAIChatServer):
    def __init__(self, manner: Manner = well, **settings: Any) -> None:
        super().__init__(Oracle(), **settings)
        self.manner = manner

    def said(self, asked: ChatRequest, output: Output) -> Reply:
        described: Mapping[str, Any] = (asked.response_format or {}).get("json_schema", {})
        answer = self.manner(described.get("name", ""), asked.prompt)
        return super().said(asked, Output(text=answer if isinstance(answer, str) else json.dumps(answer)))
