"""The context of a chunk: page title and headings that are embedded and indexed before its text. Pure."""

from bisect import bisect_left
from collections.abc import Callable, Sequence

from retrievers.config.indexing import Context

SECTION_SEPARATOR = " > "
TokenCounter = Callable[[str], int]


def context_of(context: Context, title: str, path: Sequence[str], max_tokens: int, count_tokens: TokenCounter) -> str:
    """Return the context of a section's chunks: its last words that fit, so that room is left for the text.

    Args:
        context: Part of the page's structure that makes it; a heading that repeats another one is left out.
        title: Title of the page.
        path: The headings above the text, from the page's top.
        max_tokens: Most tokens of the context.
        count_tokens: Counts the tokens of a text.
    """
    parts = {"none": [], "title": [title], "path": [title, *path]}[context]
    words = SECTION_SEPARATOR.join(dict.fromkeys(part for part in parts if part)).split()
    # The deepest heading says most about the text.
    start = bisect_left(range(len(words)), True, key=lambda first: count_tokens(" ".join(words[first:])) <= max_tokens)
    return " ".join(words[start:])
