"""Answers of a chat model, from LangChain's messages and from errors that are answers."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from retrievers.net.faults import causes
from retrievers.text.secrets import without_secrets

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelAnswer:
    """Answer of a model: its text, its stop reason, and its token counts (None when it does not give them).

    A model may quote a key that it was shown or asked with: secrets are hidden in the text from here on.
    """

    text: str
    finish: str = ""
    tokens_in: int | None = None
    tokens_out: int | None = None

    def __post_init__(self) -> None:
        """Hide secrets."""
        object.__setattr__(self, "text", without_secrets(self.text))


def read_message(message: "BaseMessage") -> ModelAnswer:
    """Return text, stop reason and usage of a LangChain message."""
    usage = getattr(message, "usage_metadata", None) or {}
    metadata = {**message.additional_kwargs, **message.response_metadata}
    finish = metadata.get("finish_reason") or metadata.get("stop_reason") or metadata.get("done_reason") or ""
    # OpenAI sends a refusal in place of a text.
    refusal = metadata.get("refusal")
    return ModelAnswer(
        text=str(refusal or message.text),
        finish="refusal" if refusal else str(finish),
        tokens_in=usage.get("input_tokens"),
        tokens_out=usage.get("output_tokens"),
    )


def read_early_end(error: BaseException) -> ModelAnswer | None:
    """Return the cut or filtered answer that openai's client hides in an error; None for any other error."""
    for cause in causes(error):
        if type(cause).__name__ == "ContentFilterFinishReasonError":
            return ModelAnswer(text="", finish="content_filter", tokens_out=0)
        if type(cause).__name__ == "LengthFinishReasonError":
            completion: Any = getattr(cause, "completion", None)
            text = next((choice.message.content or "" for choice in getattr(completion, "choices", ())), "")
            usage = getattr(completion, "usage", None)
            read, written = (getattr(usage, f"{kind}_tokens", None) for kind in ("prompt", "completion"))
            return ModelAnswer(text=text, finish="length", tokens_in=read, tokens_out=written)
    return None
