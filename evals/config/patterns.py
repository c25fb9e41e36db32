"""Regular expressions of golden data, which may be somebody else's: RE2 matches in linear time, so none can hang."""

from functools import lru_cache
from typing import Any

from retrievers.text.quoting import shortened


@lru_cache(maxsize=1_024)
def compiled(pattern: str) -> Any:
    """Compile a pattern to search with.

    Raises:
        ValueError: RE2 cannot read it; it has neither lookarounds nor back-references.
    """
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = shortened(error.args[0].decode("utf-8", "replace"))
        raise ValueError(f"is no regular expression of RE2 (without lookarounds, back-references): {reason}") from None


def found(pattern: str, text: str) -> bool:
    """Return True if a pattern matches somewhere in a text."""
    return compiled(pattern).search(text.encode("utf-8", "replace").decode()) is not None
