"""What a chat model answered, out of LangChain's messages and out of errors that are answers."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from retrievers.net.faults import causes

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What a model answered: its text, why it stopped, and the tokens it counted (None when it does not say)."""

    text: str
    finish: str = ""
    tokens_in: int | None = None
    tokens_out: int | None = None


def read_message(message: "BaseMessage") -> Answer:
    """Text, stop reason and usage out of a LangChain message."""
    usage = getattr(message, "usage_metadata", None) or {}
    said = {**message.additional_kwargs, **message.response_metadata}
    finish = said.get("finish_reason") or said.get("stop_reason") or said.get("done_reason") or ""
    refusal = said.get("refusal")  # OpenAI's, in place of a text
    return Answer(
        text=str(refusal or message.text),
        finish="refusal" if refusal else str(finish),
        tokens_in=usage.get("input_tokens"),
        tokens_out=usage.get("output_tokens"),
    )


def read_early_end(error: BaseException) -> Answer | None:
    """The answer that openai's client hides in an error when it was cut or filtered; None for any other error."""
    for one in causes(error):
        if type(one).__name__ == "ContentFilterFinishReasonError":
            return Answer(text="", finish="content_filter", tokens_out=0)
        if type(one).__name__ == "LengthFinishReasonError":
            said: Any = getattr(one, "completion", None)
            text = next((choice.message.content or "" for choice in getattr(said, "choices", ())), "")
            usage = getattr(said, "usage", None)
            read, written = (getattr(usage, f"{what}_tokens", None) for what in ("prompt", "completion"))
            return Answer(text=text, finish="length", tokens_in=read, tokens_out=written)
    return None
