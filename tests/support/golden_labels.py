"""From golden cases and the chunks of a collection to what an oracle knows."""

import re
from collections.abc import Iterable, Mapping, Sequence

from evals.cases.case import Case
from evals.cases.relevance import Relevance, resolve
from retrievers.records import Chunk
from tests.support.judging import Labels

END = re.compile(r"(?<=[.!?])\s+")


def golden_labels(cases: Sequence[Case], chunks: Iterable[Chunk]) -> dict[str, Labels]:
    """Return labels by query.

    Useful are the chunks that the evidence names. The statements of a reference answer are its sentences; since golden
    cases do not say which evidence supports which sentence, the first item supports the first one, and so on, beginning
    again when the items are used up: any chunk that holds the item.
    """
    held = list(chunks)
    texts = {chunk.chunk_id: chunk.text for chunk in held}
    relevance = resolve(cases, held, {})
    return {case.query: _labels(case, relevance[case.id], texts) for case in cases}


def sentences(text: str) -> list[str]:
    """Return the sentences of a text, verbatim."""
    return [part for part in END.split(text.strip()) if part]


def _labels(case: Case, relevance: Relevance, texts: Mapping[str, str]) -> Labels:
    items = relevance.items
    said = sentences(case.reference_answer or "")
    claims = {one: [texts[key] for key in items[place % len(items)]] if items else [] for place, one in enumerate(said)}
    return Labels(useful={texts[key] for key in relevance.grades}, claims=claims)
