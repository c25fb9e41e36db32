"""The statements of a reference answer, the same in every answer of a judge. Pure.

They are the sentences of the reference, fixed before anybody is asked. A judge writes the statements of its answers
differently in every call, so they are matched to these sentences by their text.
"""

import re
from collections.abc import Sequence

from evals.collect.observations import Failure
from evals.judge.verdicts import Claim

# The end of a sentence: a full stop unless a small letter follows; and the end of a line.
END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]*[^\W_a-z])|\s*\n\s*")
FEWEST_LETTERS, STEM = 4, 5
# The scripts after it in Unicode put no space between words.
LAST_SPACED = "\u2e7f"
# Least similarity, 0 to 100, of a statement and the sentence that it repeats.
ALIKE = 90.0


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


def aligned(reference: str, claims: Sequence[Claim]) -> tuple[Claim, ...] | Failure:
    """Match the judge's statements to the sentences of a reference answer, in its order.

    A sentence is repeated by the statement most similar to it, at 90 of 100 or more (rapidfuzz's `ratio`, case and
    white space aside). Where there is none, the statements count that hold it or that it holds, at the same similarity
    (`partial_ratio`): a judge may join sentences or take them apart. It is supported when all of these are.

    Args:
        reference: The reference answer.
        claims: The judge's statements in one answer.

    Returns:
        One claim a sentence; or a failure, when the judge has left out or reworded a sentence.
    """
    matched: list[Claim] = []
    for sentence in sentences(reference):
        same = _same(sentence, claims)
        if not same:
            return Failure(type="StatementMissing", message=f"the judge's statements do not hold {sentence!r}")
        against = [claim for claim in same if not claim.attributed]
        decided = (against or same)[0]
        matched.append(Claim(statement=sentence, attributed=decided.attributed, reason=decided.reason))
    return tuple(matched)


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


def _same(sentence: str, claims: Sequence[Claim]) -> list[Claim]:
    from rapidfuzz import fuzz

    target, statements = _plain(sentence), [_plain(claim.statement) for claim in claims]
    likeness = [fuzz.ratio(target, statement) for statement in statements]
    best = max(likeness, default=0.0)
    if best < ALIKE:
        likeness = [fuzz.partial_ratio(target, statement) if statement else 0.0 for statement in statements]
        best = ALIKE
    return [claim for claim, alike in zip(claims, likeness, strict=True) if alike >= best]


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
