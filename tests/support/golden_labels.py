"""Golden data read as a run reads it, the order in which a judge is asked about it, and what an oracle knows of it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from evals import Golden
from evals.cases.case import Case
from evals.cases.reading import golden_set
from evals.cases.relevance import Relevance, resolve
from evals.sampling import order as sampling
from retrievers.records import Chunk
from tests.support.judging import Labels

END = re.compile(r"(?<=[.!?])\s+")


def load(path: Path) -> Golden:
    """Return the golden data of a file."""
    return golden_set(path)


def judging_order(rows: Iterable[Mapping[str, Any] | Case], seed: int) -> Sequence[str]:
    """Return the ids of the in-scope cases in the order in which a judge is asked about them."""
    return sampling.judging_order((Case.model_validate(row) for row in rows), seed)


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
