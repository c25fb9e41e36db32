"""The sentences of a reference answer, and the statements of a judge that have nothing to do with it. Pure."""

import re
from collections.abc import Sequence

from evals.judge.verdicts import Claim

# The end of a sentence: a full stop unless a small letter follows; and the end of a line.
END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]*[^\W_a-z])|\s*\n\s*")
FEWEST_LETTERS, STEM = 4, 5
# The scripts after it in Unicode put no space between words.
LAST_SPACED = "\u2e7f"


def sentences(reference: str) -> list[str]:
    """Split a reference answer into sentences. A single word (`1.`, `Dr.`) belongs to the sentence behind it."""
    sentences: list[str] = []
    sentence = ""
    for part in filter(None, END.split(reference.strip())):
        sentence = f"{sentence} {part}".strip()
        if " " in sentence:
            sentences.append(sentence)
            sentence = ""
    return [*sentences, sentence] if sentence else sentences


def foreign(reference: str, claims: Sequence[Claim]) -> tuple[Claim, ...]:
    """Return the statements that share no word with a reference answer, if they are more than half of all.

    A small model copies the example of the prompt in place of the statements of the answer. Words are those of four
    letters and more, by their first five, and all that hold a digit; of scripts without spaces, pairs of characters.

    Args:
        reference: The reference answer.
        claims: The judge's statements in one answer.
    """
    words = _words(reference)
    strangers = tuple(claim for claim in claims if words.isdisjoint(_words(claim.statement)))
    return strangers if words and 2 * len(strangers) > len(claims) else ()


def _words(text: str) -> set[str]:
    words: set[str] = set()
    for word in re.findall(r"\w+", text.casefold()):
        if any(character > LAST_SPACED for character in word):
            words.update(word[start : start + 2] for start in range(max(1, len(word) - 1)))
        elif len(word) >= FEWEST_LETTERS or any(map(str.isdigit, word)):
            words.add(word[:STEM])
    return words
