"""Labels of people: read back, compared with each other and with a judge, and written into a golden file."""

import csv
import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from statistics import median_low
from typing import Any

import numpy as np
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, field_validator

from evals.cases.case import Case, Evidence, Labelling, Text
from evals.cases.reading import explain, golden_set, refusal
from evals.cases.relevance import normalise
from evals.cases.rows import MOST_BYTES
from evals.config.files import write
from evals.errors import DatasetError
from evals.golden.chunks import json_lines
from evals.stats.kappa import cohens_kappa
from retrievers.config.files import load_json, read_text

MOST_GRADE = 3
Pair = tuple[str, str]
"""Case id and chunk id."""


class Label(BaseModel):
    """What an annotator says of a chunk for a query; the last one on the three counts.

    Attributes:
        asked: Hash of what the annotator read of the case: query and reference answer.
        annotator: Name.
        grade: 0 not relevant, 1 background, 2 answers in part, 3 answers; None where it was skipped.
        quotes: Passages of the chunk that answer, verbatim.
        note: Remark of the annotator.
        chunk_text: Text of the chunk, for the evidence that is written from it.
        source_url: Page of the chunk.
        heading: Heading above it.
        at: Time.
        pool: Systems of the pool that it was judged in.
        depth: Depth of that pool.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    case: Text
    asked: str
    chunk: Text
    annotator: Text = Field(max_length=80)
    grade: int | None = Field(None, ge=0, le=MOST_GRADE)
    quotes: tuple[str, ...] = ()
    note: str = ""
    chunk_text: str = ""
    source_url: str | None = None
    heading: str | None = None
    at: AwareDatetime
    pool: tuple[str, ...] = ()
    depth: int = Field(ge=1)

    @field_validator("quotes")
    @classmethod
    def _not_blank(cls, quotes: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(quote for quote in quotes if quote.strip())


Labels = Mapping[tuple[str, str, str], Label]


"""(annotator, case id, chunk id) to the label that counts."""


def read_labels(sources: Sequence[Path], annotator: str | None = None) -> Labels:
    """Return the labels of saved pages (JSON Lines) and spreadsheets (CSV): the last of each person, query and chunk.

    Args:
        sources: The files.
        annotator: Name of the person, where a spreadsheet names none.

    Raises:
        DatasetError: A file cannot be read, or holds no label; every fault with its place.
    """
    labels: dict[tuple[str, str, str], Label] = {}
    faults = []
    for file in sources:
        stamp = datetime.fromtimestamp(file.stat().st_mtime, UTC) if file.is_file() else None
        for place, row in _label_rows(file):
            if isinstance(row, Exception):
                faults.append(f"{place}: {row}")
                continue
            try:
                one = Label.model_validate({"annotator": annotator or "", "at": stamp, **row})
            except ValidationError as error:
                faults += [f"{place}: {explain(dict(item))}" for item in error.errors(include_url=False)]
                continue
            labels[one.annotator, one.case, one.chunk] = one
    if faults:
        raise refusal(faults)
    if not labels:
        raise DatasetError(f"{', '.join(map(str, sources))}: no label in them; label first")
    return labels


def merge(file: Path, labels: Labels) -> list[str]:
    """Write labels into a golden file, whole or not at all; return what there is to say of them.

    Raises:
        DatasetError: The golden file changed since they were given.
    """
    before = read_text(file, "golden .jsonl", MOST_BYTES, DatasetError)
    cases = golden_set(file).cases
    check_unchanged(cases, labels)
    written = [line for line in before.splitlines() if line.strip()]
    if len(written) != len(cases) or not all(line.lstrip().startswith("{") for line in written):
        raise DatasetError(
            f"{file}: expected one JSON object a line to write labels into; golden import {file} makes it"
        )
    changes = {case.id: changed for case in cases if (changed := merged(case, labels))}
    ids = iter(case.id for case in cases)
    lines = []
    for line in before.splitlines(keepends=True):
        changed = changes.get(next(ids), {}) if line.strip() else {}
        lines.append(json_lines([json.loads(line) | changed]) if changed else line)
    # Its writer may have been at it in the meantime.
    if read_text(file, "golden .jsonl", MOST_BYTES, DatasetError) != before:
        raise DatasetError(f"{file}: changed while the labels were taken in; nothing is written, do it again")
    write(file, "".join(lines))
    against = [f"  {line}" for case in cases for line in contradictions(case, labels)]
    both = f"{len(against)} labels contradict the golden data; both are kept, and need a decision:"
    return [
        f"{file}: labels of {len(changes)} cases are written",
        *([both, *against] if against else []),
        f"Next: python -m evals.golden check {file}, then a run on it (dataset.path)",
    ]


def check_unchanged(cases: Sequence[Case], labels: Labels) -> None:
    """Make sure that the cases are those that were labelled.

    Raises:
        DatasetError: Query or reference answer of a case is another one, or the case is gone; each is named.
    """
    now = {case.id: asked_hash(case) for case in cases}
    faults = []
    for case_id in dict.fromkeys(one.case for one in labels.values()):
        own = [one for one in labels.values() if one.case == case_id]
        stale = sum(one.asked != now.get(case_id) for one in own)
        if case_id not in now:
            faults.append(f"{case_id}: {len(own)} labels, and no such case")
        elif stale:
            faults.append(f"{case_id}: query or reference_answer changed after {stale} of {len(own)} labels were given")
    if faults:
        raise DatasetError(
            "the golden data changed while it was labelled; nothing is written, and the labels are kept. Restore the "
            "cases, or label these again:",
            faults,
        )


def merged(case: Case, labels: Labels) -> dict[str, Any]:
    """Return the fields of a case that labels change, as JSON values; empty where it has no label.

    The grade of a chunk is the median of its annotators', the lower of the two in the middle. The chunk becomes
    evidence of that grade: by the quotes that were marked in it, else by its whole text; 0 is judged, not relevant.
    """
    passages, verdicts, every = list(case.evidence), dict(case.human_verdicts), []
    for chunk_id, own in _by_chunk(case, labels).items():
        grade = _grade(own)
        every += own
        if case.in_scope or not grade:
            new = _evidence(own, grade)
            # What a former label said of the whole chunk is replaced.
            replaced = {_passage(item) for item in (*new, *_evidence(own, 0))}
            passages = [*(old for old in passages if _passage(old) not in replaced), *new]
        if case.in_scope and case.reference_answer is not None:
            verdicts[chunk_id] = int(grade > 0)
    if not every:
        return {}
    labelling = Labelling(
        by=sorted({one.annotator for one in every}),
        at=max(one.at for one in every).isoformat(timespec="seconds"),
        pool=list(dict.fromkeys(name for one in every for name in one.pool)),
        depth=max(one.depth for one in every),
    )
    return {
        "evidence": [item.model_dump(mode="json", exclude_none=True) for item in passages],
        **({"human_verdicts": verdicts} if verdicts else {}),
        "labelling": labelling.model_dump(mode="json"),
    }


def contradictions(case: Case, labels: Labels) -> list[str]:
    """Return what labels say against the golden data, a line each: neither is changed by the other."""
    lines = []
    for chunk_id, own in _by_chunk(case, labels).items():
        grade, text = _grade(own), normalise(own[0].chunk_text)
        quoted = [item.quote for item in case.relevant_evidence if item.quote and normalise(item.quote) in text]
        if grade and not case.in_scope:
            lines.append(f"{case.id}: chunk {chunk_id} has grade {grade}, and the case is out of scope")
        if not grade and quoted:
            lines.append(f"{case.id}: chunk {chunk_id} has grade 0, and holds the evidence “{quoted[0][:60]}”")
        if not grade and case.relevant.get(chunk_id):
            lines.append(f"{case.id}: chunk {chunk_id} has grade 0, and stands in relevant_ids")
    return lines


def agreement(labels: Labels, judge: Mapping[Pair, int]) -> list[str]:
    """Return the agreement, a line each: alpha, kappa of every pair of annotators, and of each with the judge.

    Args:
        labels: The labels that count.
        judge: Verdicts of a judge, 1 useful or 0; a grade above 0 is the same as 1.
    """
    by_pair: dict[Pair, dict[str, int]] = {}
    for (annotator, case_id, chunk_id), one in labels.items():
        if one.grade is not None:
            by_pair.setdefault((case_id, chunk_id), {})[annotator] = one.grade
    annotators = sorted({annotator for grades in by_pair.values() for annotator in grades})
    doubly = [list(grades.values()) for grades in by_pair.values() if len(grades) > 1]
    lines = []
    if doubly:
        lines.append(f"Krippendorff's alpha (ordinal): {_shown(krippendorff_alpha(doubly))} over {len(doubly)} chunks")
    for first, second in combinations(annotators, 2):
        both = [(grades[first], grades[second]) for grades in by_pair.values() if {first, second} <= grades.keys()]
        if both:
            lines.append(f"Cohen's kappa of {first} and {second}: {_shown(_kappa(both))} over {len(both)} chunks")
    for annotator in annotators:
        both = [(int(g[annotator] > 0), judge[pair]) for pair, g in by_pair.items() if annotator in g and pair in judge]
        if both:
            same = f"{annotator} and the judge: the same in {sum(a == b for a, b in both)} of {len(both)} chunks"
            lines.append(f"{same}, Cohen's kappa {_shown(_kappa(both))}")
    return lines or ["Agreement: nothing was labelled by two yet"]


def krippendorff_alpha(units: Sequence[Sequence[int]], most: int = MOST_GRADE) -> float | None:
    """Return Krippendorff's alpha for ordinal values: 1 − observed / expected disagreement.

    1 is perfect agreement, 0 that of chance; negative below chance. Units with one value tell nothing. The distance of
    two grades is the squared number of values between them, both ends counted half.

    Source: Krippendorff (2011), "Computing Krippendorff's alpha-reliability".

    Args:
        units: For each unit the grades that it got, 0 to `most`, from any number of annotators.
        most: The highest grade.

    Returns:
        None where no unit has two values, or all values are the same, so that nothing could disagree.
    """
    coincidences = np.zeros((most + 1, most + 1))
    for values in units:
        if len(values) > 1:
            counts = np.bincount(values, minlength=most + 1).astype(float)
            coincidences += (np.outer(counts, counts) - np.diag(counts)) / (len(values) - 1)
    totals = coincidences.sum(axis=0)
    n = totals.sum()
    if n == 0 or np.count_nonzero(totals) < 2:
        return None
    cumulated = np.cumsum(totals) - totals / 2
    distance = (cumulated[:, None] - cumulated[None, :]) ** 2
    expected = (np.outer(totals, totals) * distance).sum() / (n - 1)
    return float(1 - (coincidences * distance).sum() / expected)


def asked_hash(case: Case) -> str:
    """Return the hash of what annotators read of a case."""
    return hashlib.sha256(f"{case.query}\0{case.reference_answer or ''}".encode()).hexdigest()[:16]


def _label_rows(file: Path) -> Iterator[tuple[str, Any]]:
    """Yield the rows of a file of labels: of a spreadsheet those with a grade."""
    text = read_text(file, "labels as JSON Lines or CSV", MOST_BYTES, DatasetError)
    if file.suffix.lower() != ".csv":
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                try:
                    value = load_json(line)
                    yield f"{file}:{number}", value if isinstance(value, dict) else ValueError("expected an object")
                except ValueError as error:
                    yield f"{file}:{number}", error
        return
    reader = csv.DictReader(io.StringIO(text), delimiter=";" if ";" in text.partition("\n")[0] else ",")
    for row in reader:
        cells = {name: cell[1:] if cell.startswith("'") else cell for name, cell in row.items() if name and cell}
        if not cells.get("grade", "").strip():
            continue
        lists = {"pool": cells.get("pool", "").split(), "quotes": cells.get("quotes", "").splitlines()}
        yield f"{file}:{reader.line_num}", {n: c for n, c in cells.items() if n in Label.model_fields} | lists


def _by_chunk(case: Case, labels: Labels) -> Mapping[str, list[Label]]:
    result: dict[str, list[Label]] = {}
    for one in sorted(labels.values(), key=lambda one: (one.chunk, one.annotator)):
        if one.case == case.id and one.grade is not None:
            result.setdefault(one.chunk, []).append(one)
    return result


def _grade(labels: Sequence[Label]) -> int:
    return median_low(one.grade for one in labels if one.grade is not None)


def _evidence(labels: Sequence[Label], grade: int) -> list[Evidence]:
    quotes = {normalise(quote): quote for one in labels if one.grade for quote in one.quotes} if grade else {}
    return [
        Evidence(source_url=labels[0].source_url, heading=labels[0].heading, quote=quote, grade=grade)
        for quote in quotes.values() or [labels[0].chunk_text]
    ]


def _passage(evidence: Evidence) -> tuple[str | None, str]:
    """Return what two pieces of evidence have in common that quote the same passage of the same page."""
    return evidence.source_url, normalise(evidence.quote or "")


def _kappa(pairs: Sequence[tuple[int, int]]) -> float | None:
    """Return Cohen's kappa of two raters; None where both give all of them one grade."""
    first, second = np.asarray(pairs).T
    grades = np.union1d(first, second)
    counts = np.zeros((len(grades), len(grades)))
    np.add.at(counts, (np.searchsorted(grades, first), np.searchsorted(grades, second)), 1)
    return float(cohens_kappa(counts)) if len(grades) > 1 else None


def _shown(value: float | None) -> str:
    return "not computable (all say the same)" if value is None else f"{value:.3f}"
