"""Labels of people taken into a golden file."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evals.config.experiment import DatasetConfig
from evals.config.files import write
from evals.errors import DatasetError
from evals.golden.json_lines import json_lines
from evals.golden.labelling.annotator_agreement import agreement
from evals.golden.labelling.labels import LabelFile, standing
from evals.golden.labelling.merging import check_unchanged, contradictions, merged
from evals.golden.loading import MOST_BYTES, load_golden
from retrievers.config.text_files import read_text


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
