"""Words of queries beside those of passages. Pure."""

import re
from collections.abc import Iterator

# Share of a query's stretches of four words that may stand in its passages: terms of the field have that many, too.
MOST_COPIED = 0.3
GRAM = 4
# The scripts after it in Unicode put no space between words.
WORD = re.compile(r"[⺀-\uffff]|\w+")


def copied_share(query: str, text: str) -> float:
    """Return the share of a query's stretches of four words that stand in a text, 0 to 1; 0 for fewer than four words.

    Case and punctuation are ignored; of scripts without spaces, each character is a word.
    """
    own, in_text = list(grams(query)), set(grams(text))
    return sum(gram in in_text for gram in own) / len(own) if own else 0.0


def grams(text: str) -> Iterator[tuple[str, ...]]:
    """Yield the stretches of four words of a text."""
    words = WORD.findall(text.casefold())
    return (tuple(words[start : start + GRAM]) for start in range(len(words) - GRAM + 1))
