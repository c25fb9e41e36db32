"""The texts that a model is sent: with the prefix that it expects, and no longer than it takes."""

import logging

from retrievers.embedding.tokens import tokenizer

log = logging.getLogger(__name__)


def sent(texts: list[str], prefix: str | None, max_tokens: int | None) -> list[str]:
    """Return texts with a prefix, each cut to a number of tokens of the packaged tokenizer.

    That splits finer than the tokenizers of hosted models, so that what is left is short enough for them.
    """
    prefixed = [prefix + text for text in texts] if prefix else texts
    if max_tokens is None:
        return prefixed
    shortened = [cut(text, max_tokens) for text in prefixed]
    longer = sum(len(short) < len(text) for short, text in zip(shortened, prefixed, strict=True))
    if longer:
        log.warning(
            "%d of %d texts have more than %d tokens; what follows is not embedded (embedding.max_tokens)",
            longer, len(texts), max_tokens,
        )  # fmt: skip
    return shortened


def cut(text: str, max_tokens: int) -> str:
    """Return a text, truncated to at most `max_tokens` tokens."""
    # A token has at least one byte.
    if len(text) * 4 <= max_tokens or len(text.encode(errors="replace")) <= max_tokens:
        return text
    # Tokens are rarely longer than 16 characters; the rest need not be looked at.
    offsets = tokenizer().encode(text[: max_tokens * 16], add_special_tokens=False).offsets
    return text if len(offsets) <= max_tokens else text[: offsets[max_tokens][0]]
