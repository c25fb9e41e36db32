"""Labels of people taken into a golden file: evidence with grades, human verdicts, and who judged what."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median_low
from typing import Any

from evals.config.experiment import DatasetConfig
from evals.config.files import write
from evals.errors import DatasetError
from evals.golden.case import Case, Evidence, Labelling
from evals.golden.commands import json_lines
from evals.golden.evidence import normalise
from evals.golden.labelling.annotator_agreement import agreement
from evals.golden.labelling.labels import Label, LabelFile, Standing, asked, standing
from evals.golden.loading import MOST_BYTES, load_golden
from retrievers.config.files import read_text


def merge(file: Path, labels: LabelFile, judge: Mapping[tuple[str, str], int], *, evidence: bool = True) -> list[str]:
    """Write labels into a golden file, whole or not at all; return what there is to say of them.

    Args:
        file: The golden file; lines of cases without labels stay as they are.
        labels: The labels.
        judge: Verdicts of a judge by case and chunk id, for the agreement.
        evidence: False to write human verdicts alone.

    Raises:
        DatasetError: There are none, or the golden file changed since they were given.
    """
    before = _text(file)
    cases = load_golden(DatasetConfig(path=file)).cases
    joined = standing(labels.labels())
    if not joined:
        raise DatasetError(f"{labels.path}: no label to write; label first, without --write")
    check_unchanged(cases, joined)
    changes = {case.id: changed for case in cases if (changed := merged(case, joined, evidence=evidence))}
    text = "".join(_changed_line(line, changes) for line in before.splitlines(keepends=True))
    # Its writer may have been at it in the meantime.
    if _text(file) != before:
        raise DatasetError(f"{file}: changed while the labels were taken in; nothing is written, do it again")
    write(file, text)
    against = [line for case in cases for line in contradictions(case, joined)]
    return [
        f"{file}: labels of {len(changes)} cases are written",
        *(
            [f"{len(against)} labels contradict the golden data; both are kept, and need a decision:"]
            if against
            else []
        ),
        *(f"  {line}" for line in against),
        *agreement(joined, judge),
        f"Next: python -m evals.golden audit {file}, then a run on it (dataset.path)",
    ]


def _changed_line(line: str, changes: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a line of the golden file with the changes of its case; other lines stay as they are written."""
    if not line.strip():
        return line
    row = json.loads(line)
    changed = changes.get(row["id"])
    return line if changed is None else json_lines([row | changed])


def _text(file: Path) -> str:
    return read_text(file, "golden .jsonl", MOST_BYTES, DatasetError)


def check_unchanged(cases: Sequence[Case], kept: Standing) -> None:
    """Make sure that the cases are those that were labelled.

    Raises:
        DatasetError: Query or reference answer of a case is another one, or the case is gone; each is named.
    """
    by_id = {case.id: case for case in cases}
    faults = []
    for case_id in dict.fromkeys(label.case for label in kept.values()):
        labels = [label for label in kept.values() if label.case == case_id]
        count = f"{len(labels)} labels"
        if case_id not in by_id:
            faults.append(f"{case_id}: {count}, and no such case")
        elif stale := [label for label in labels if label.asked != asked(by_id[case_id])]:
            faults.append(f"{case_id}: query or reference_answer changed after {len(stale)} of {count} were given")
    if faults:
        raise DatasetError(
            "the golden data changed while it was labelled; nothing is written, and the labels are kept. Restore the "
            "cases, or label these again:",
            faults,
        )


def merged(case: Case, kept: Standing, *, evidence: bool = True) -> dict[str, Any]:
    """Return the fields of a case that labels change, as JSON values; empty where it has no label.

    The grade of a chunk is the median of its annotators', the lower of the two in the middle. The chunk becomes
    evidence of that grade: by the quotes that were marked in it, else by its whole text; 0 is judged, not relevant.

    Args:
        case: The case.
        kept: The labels that count, of any cases.
        evidence: False for human verdicts alone.
    """
    by_chunk = _by_chunk(case, kept)
    if not by_chunk:
        return {}
    passages, verdicts = list(case.evidence), dict(case.human_verdicts)
    for chunk_id, labels in by_chunk.items():
        grade = _grade(labels)
        if case.in_scope or not grade:
            new = _evidence(labels, grade)
            # What a former label said of the whole chunk is replaced.
            replaced = [*new, *_evidence(labels, 0)]
            passages = [*(old for old in passages if not any(_same(old, item) for item in replaced)), *new]
        if case.in_scope and case.reference_answer is not None:
            verdicts[chunk_id] = int(grade > 0)
    if not evidence:
        return {"human_verdicts": verdicts} if verdicts else {}
    every = [label for labels in by_chunk.values() for label in labels]
    labelling = Labelling(
        by=sorted({label.annotator for label in every}),
        at=max(label.at for label in every).isoformat(timespec="seconds"),
        pool=list(dict.fromkeys(name for label in every for name in label.pool)),
        depth=max(label.depth for label in every),
    )
    return {
        "evidence": [item.model_dump(mode="json", exclude_none=True) for item in passages],
        **({"human_verdicts": verdicts} if verdicts else {}),
        "labelling": labelling.model_dump(mode="json"),
    }


def contradictions(case: Case, kept: Standing) -> list[str]:
    """Return what labels say against the golden data, a line each: neither is changed by the other."""
    lines = []
    for chunk_id, labels in _by_chunk(case, kept).items():
        grade = _grade(labels)
        text = normalise(labels[0].chunk_text)
        quoted = [item.quote for item in case.relevant_evidence if item.quote and normalise(item.quote) in text]
        if grade and not case.in_scope:
            lines.append(f"{case.id}: chunk {chunk_id} has grade {grade}, and the case is out of scope")
        if not grade and quoted:
            lines.append(f"{case.id}: chunk {chunk_id} has grade 0, and holds the evidence “{quoted[0][:60]}”")
        if not grade and case.relevant.get(chunk_id):
            lines.append(f"{case.id}: chunk {chunk_id} has grade 0, and stands in relevant_ids")
    return lines


def _by_chunk(case: Case, kept: Standing) -> Mapping[str, list[Label]]:
    result: dict[str, list[Label]] = {}
    for label in sorted(kept.values(), key=lambda label: (label.chunk, label.annotator)):
        if label.case == case.id and label.grade is not None:
            result.setdefault(label.chunk, []).append(label)
    return result


def _grade(labels: Sequence[Label]) -> int:
    return median_low(label.grade for label in labels if label.grade is not None)


def _evidence(labels: Sequence[Label], grade: int) -> list[Evidence]:
    quotes = {normalise(quote): quote for label in labels if label.grade for quote in label.quotes} if grade else {}
    return [
        Evidence(source_url=labels[0].source_url, heading=labels[0].heading, quote=quote, grade=grade)
        for quote in quotes.values() or [labels[0].chunk_text]
    ]


def _same(old: Evidence, new: Evidence) -> bool:
    """Return True if two pieces of evidence quote the same passage of the same page."""
    return old.source_url == new.source_url and normalise(old.quote or "") == normalise(new.quote or "")
