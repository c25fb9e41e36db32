"""Regular expressions of golden data, matched in linear time by RE2: no pattern can hang a run."""

import re
from functools import lru_cache
from typing import Any

from retrievers.text.quoting import shortened

# Characters of a pattern.
LONGEST = 1_000
# RE2 refuses a repetition of over 1,000, but takes one that no integer holds for text.
HUGE_REPETITION = re.compile(r"(?<!\\)\{(?:\d*,)?\d{5}")


@lru_cache(maxsize=1_024)
def compiled(pattern: str) -> Any:
    """Compile a pattern to search with.

    Raises:
        ValueError: It is too long, or RE2 cannot read it, which has neither lookarounds nor back-references.
    """
    import re2

    if len(pattern) > LONGEST:
        raise ValueError(f"is a regular expression of {len(pattern):,} characters; expected at most {LONGEST:,}")
    if HUGE_REPETITION.search(pattern):
        raise ValueError("is a regular expression that repeats more than 1,000 times")
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode("utf-8", "replace") if isinstance(error.args[0], bytes) else str(error)
        raise ValueError(
            f"is not a regular expression of RE2's syntax, which matches in linear time and so has no lookahead, "
            f"lookbehind or back-reference: {shortened(reason)}"
        ) from None


def found(pattern: str, text: str) -> bool:
    """Return True if a pattern matches somewhere in a text."""
    return compiled(pattern).search(text.encode("utf-8", "replace").decode()) is not None
