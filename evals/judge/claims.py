"""The statements of a reference answer, the same in every answer of a judge. Pure.

They are the sentences of the reference, fixed before anybody is asked. A judge writes the statements of its answers
anew in every call, so those are laid beside these sentences by their text.
"""

import re
from collections.abc import Sequence

from evals.collect.observations import Failure
from evals.judge.verdicts import Claim

END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]*[^\W_a-z])|\s*\n\s*")
"""Behind a full stop, before whatever is no small letter; and the end of a line."""
FEWEST_LETTERS, STEM = 4, 5
LAST_SPACED = "\u2e7f"
"""Behind it in Unicode come the scripts that put no space between words."""
ALIKE = 90.0
"""The least similarity, of 0 to 100, of a statement and the sentence that it repeats."""


def sentences(reference: str) -> list[str]:
    """The sentences of a reference answer. A single word (`1.`, `Dr.`) belongs to the sentence behind it."""
    made: list[str] = []
    begun = ""
    for part in filter(None, END.split(reference.strip())):
        begun = f"{begun} {part}".strip()
        if " " in begun:
            made.append(begun)
            begun = ""
    return [*made, begun] if begun else made


def aligned(reference: str, said: Sequence[Claim]) -> tuple[Claim, ...] | Failure:
    """What the judge said of each sentence of a reference answer, in its order.

    A sentence is repeated by the statement most similar to it, at 90 of 100 or more (rapidfuzz's `ratio`, case and
    white space aside). Where there is none, the statements count that hold it or that it holds, at the same similarity
    (`partial_ratio`): a judge may join sentences or take them apart. It is supported when all of these are.

    Args:
        reference: The reference answer.
        said: The judge's statements in one answer.

    Returns:
        One claim a sentence; or a failure, when the judge has left out a sentence or written it anew.
    """
    found: list[Claim] = []
    for sentence in sentences(reference):
        same = _same(sentence, said)
        if not same:
            return Failure(type="StatementMissing", message=f"the judge's statements do not hold {sentence!r}")
        against = [claim for claim in same if not claim.attributed]
        decided = (against or same)[0]
        found.append(Claim(statement=sentence, attributed=decided.attributed, reason=decided.reason))
    return tuple(found)


def foreign(reference: str, said: Sequence[Claim]) -> tuple[Claim, ...]:
    """Return the statements that share no word with a reference answer, if they are more than half of all.

    A small model copies the example of the prompt in place of the statements of the answer. Words are those of four
    letters and more, by their first five, and all that hold a digit; of scripts without spaces, pairs of characters.

    Args:
        reference: The reference answer.
        said: The judge's statements in one answer.
    """
    known = _words(reference)
    strangers = tuple(claim for claim in said if known.isdisjoint(_words(claim.statement)))
    return strangers if known and 2 * len(strangers) > len(said) else ()


def _words(text: str) -> set[str]:
    words: set[str] = set()
    for word in re.findall(r"\w+", text.casefold()):
        if any(character > LAST_SPACED for character in word):
            words.update(word[place : place + 2] for place in range(max(1, len(word) - 1)))
        elif len(word) >= FEWEST_LETTERS or any(map(str.isdigit, word)):
            words.add(word[:STEM])
    return words


def _same(sentence: str, said: Sequence[Claim]) -> list[Claim]:
    from rapidfuzz import fuzz

    wanted, given = _plain(sentence), [_plain(claim.statement) for claim in said]
    likeness = [fuzz.ratio(wanted, statement) for statement in given]
    best = max(likeness, default=0.0)
    if best < ALIKE:
        likeness = [fuzz.partial_ratio(wanted, statement) if statement else 0.0 for statement in given]
        best = ALIKE
    return [claim for claim, alike in zip(said, likeness, strict=True) if alike >= best]


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
