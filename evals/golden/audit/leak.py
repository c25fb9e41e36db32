"""Query words that stand in the evidence: a query that copies its passage is too easy to find. Pure."""

import random
from collections.abc import Mapping, Sequence

import numpy as np

from evals.golden.audit.section import AuditSection, first_few
from evals.golden.case import Case
from evals.golden.synthesis.objections import MOST_COPIED, copied_share
from retrievers.config.languages import words
from retrievers.records import Chunk

# Shorter words, articles and prepositions, stand in any text.
LETTERS = 4
# Quartiles away from the third, from which on a share is an outlier (Tukey).
FENCE = 1.5
QUARTILES = (0, 25, 50, 75, 100)


def leak(cases: Sequence[Case], texts: Mapping[str, str], chunks: Sequence[Chunk], seed: int) -> AuditSection:
    """Return the share of each query's words that stand in its evidence, its distribution, and the outliers.

    Beside it stands the share in a chunk drawn at random, which is what chance and the subject give.

    Args:
        cases: The golden queries.
        texts: Case id to the text of its evidence, or of its relevant chunks.
        chunks: All chunks of the collection; none where they are not known.
        seed: Seed of the draw.
    """
    inside = [case for case in cases if texts.get(case.id) and _words(case.query)]
    shares = {case.id: shared_words(case.query, texts[case.id]) for case in inside}
    if not shares:
        return AuditSection(
            name="leak", title="Query words in the evidence", lines=("no query has evidence with text",)
        )
    rng = random.Random(seed)
    chance = [shared_words(case.query, rng.choice(chunks).text) for case in inside] if chunks else []
    quartiles = [float(value) for value in np.percentile(list(shares.values()), QUARTILES)]
    fence = quartiles[3] + FENCE * (quartiles[3] - quartiles[1])
    copied = {case.id: copied_share(case.query, texts[case.id]) for case in inside}
    outliers = [case for case in inside if shares[case.id] > fence or copied[case.id] > MOST_COPIED]
    outliers.sort(key=lambda case: (-copied[case.id], -shares[case.id], case.id))
    examples = [
        f"{case.id}: {shares[case.id]:.0%} of its words, {copied[case.id]:.0%} of its stretches of four: {case.query!r}"
        for case in outliers
    ]
    beside = f"; in a chunk drawn at random {np.mean(chance):.0%} on average" if chance else ""
    return AuditSection(
        name="leak",
        title="Query words in the evidence",
        lines=(
            f"half of the {len(shares)} queries share {quartiles[1]:.0%} to {quartiles[3]:.0%} of their words with "
            f"their evidence (median {quartiles[2]:.0%}, most {quartiles[4]:.0%}){beside}",
            f"{len(outliers)} stand out, or copy four words in a row" if outliers else "none stands out",
            *first_few(examples),
        ),
        figures={
            "quartiles": quartiles, "at_random": float(np.mean(chance)) if chance else None, "fence": fence,
            "shares": shares, "copied": {key: share for key, share in copied.items() if share},
            "outliers": [case.id for case in outliers],
        },
        doubtful=bool(outliers),
    )  # fmt: skip


def shared_words(query: str, text: str) -> float:
    """Return the share of a query's words, of four letters and more, that stand in a text, 0 to 1."""
    asked = _words(query)
    return len(asked & _words(text)) / len(asked) if asked else 0.0


def _words(text: str) -> set[str]:
    return {word for word in words(text) if len(word) >= LETTERS}
