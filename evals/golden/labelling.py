"""`golden label`: write chunks for people to judge, as a page or a spreadsheet, and read their labels back.

The labels are then written into the golden file.
"""

import argparse
import csv
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from itertools import combinations
from operator import attrgetter, itemgetter
from pathlib import Path
from shlex import join
from statistics import median_low
from typing import Any

import numpy as np
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from evals.cases.case import Case, Evidence, Labelling, Text
from evals.cases.reading import MOST_BYTES, cells_of, explain, golden_set, refusal
from evals.cases.relevance import holds_most, normalise
from evals.collect.passes import collect
from evals.collect.saved import read
from evals.config.experiment import DatasetConfig
from evals.config.files import check_apart, replacing, write
from evals.errors import DatasetError
from evals.golden.chunks import check_new, json_lines, next_check, retriever_settings, say
from evals.judge.trust import NO_VERDICT, cohens_kappa
from evals.report.model import Report
from evals.sampling.order import judging_order, uniform
from evals.stats.intervals import Floats
from evals.tracking.store import read_report
from retrievers.config.files import make_private, read_text
from retrievers.records import Chunk
from retrievers.retriever.opened import open_retriever
from retrievers.text import digest
from retrievers.text.shown import quoted

# The best grade.
MOST_GRADE = 3
# Columns of a spreadsheet.
COLUMNS = (
    *("case", "query", "reference_answer", "chunk", "place", "chunk_text", "grade", "quotes", "annotator"),
    *("source_url", "heading", "asked"),
)
# Fields of a row that are removed when labels are written, since `evidence` then holds their passages.
OF_PASSAGES = ("quote", "source_url", "heading", "contexts", "reference_contexts")
# A spreadsheet takes such a cell for a formula, or for a number. A quotation mark before it makes it text.
FORMULA = re.compile(r"[=+\-@\t\r']|[\d.,]+(e\d+)?$", re.IGNORECASE)


class Label(BaseModel):
    """An annotator's label of a chunk for a query.

    Attributes:
        case: Id of the case.
        asked: Hash of the query and the reference answer that the annotator read.
        chunk: Id of the chunk.
        annotator: Name of the annotator.
        grade: 0 not relevant, 1 background, 2 answers in part, 3 answers; None if the annotator skipped it.
        quotes: Passages of the chunk that answer the query, verbatim.
        chunk_text: Text of the chunk, from which evidence is written.
        source_url: Page of the chunk.
        heading: Heading above the chunk.
        at: Time of the label.
    """

    model_config = ConfigDict(frozen=True)

    case: Text
    asked: str
    chunk: Text
    annotator: Text = Field(max_length=80)
    grade: int | None = Field(None, ge=0, le=MOST_GRADE)
    quotes: tuple[str, ...] = ()
    chunk_text: Text
    source_url: str | None = None
    heading: str | None = None
    at: AwareDatetime

    def evidence(self, quote: str, grade: int) -> Evidence:
        """Return a quote from the chunk as evidence."""
        return Evidence(source_url=self.source_url, heading=self.heading, quote=quote, grade=grade, labelled=True)


Labels = Mapping[str, Mapping[str, Sequence[Label]]]
"""Case id to chunk id to the labels that count: the last one of each annotator."""


def label(namespace: argparse.Namespace) -> int:
    """Run the command: write a page or spreadsheet, or read the labels back.

    Raises:
        DatasetError: The pool is empty, or labels have faults. Each is listed with its place.
    """
    file: Path = namespace.file
    if not file.is_file():
        raise DatasetError(f"{file}: expected a golden .jsonl file; begin one with: golden init, or import")
    report = read_report(namespace.report)[0] if namespace.report else None
    if namespace.labels and namespace.out:
        raise DatasetError(f"--out: expected without --labels, which are read back; --write writes them into {file}")
    if namespace.labels:
        given = read_labels(namespace.labels, namespace.annotator)
        labels = standing(given)
        lines = [f"{len(given)} labels by {', '.join(sorted({label.annotator for label in given}))}"]
        lines += [agreement(labels), *([with_judge(labels, report)] if report else [])]
        if not namespace.write:
            by = [f"--annotator={namespace.annotator}"] if namespace.annotator else []
            again = join(["label", str(file), "--labels", *map(str, namespace.labels), *by, "--write"])
            return say(namespace, [*lines, f"Next: python -m evals.golden {again}"])
        last = f"Next: {next_check(file, namespace)}, then a run on it (dataset.path)"
        return say(namespace, [*lines, *write_labels(file, labels), last])
    if namespace.write:
        raise DatasetError("--write: expected the files of labels to write: --labels FILE [FILE ...]")
    out: Path = namespace.out or file.with_suffix(".label.html")
    in_csv = out.suffix.lower() == ".csv"
    check_apart([out], [file, namespace.report, namespace.config, *namespace.pool])
    # A page keeps its labels apart; a spreadsheet may be filled in.
    check_new(out, force=namespace.force or not in_csv)
    rows, systems = pooled_rows(namespace, report)
    if not rows:
        return say(namespace, ["No chunk of the pool is left to judge"])
    with replacing(out) as temporary:
        # Queries, answers and chunks may be confidential.
        make_private(temporary)
        text = _as_csv(rows, namespace.annotator) if in_csv else _as_page(rows, namespace)
        # Without a byte-order mark, Excel would read CSV in the code page of its country.
        temporary.write_text(text, encoding="utf-8-sig" if in_csv else "utf-8")
    count = f"{len(rows)} chunks of {len({row['case'] for row in rows})} queries to judge"
    how = "fill in its column grade (0 to 3)" if in_csv else "open it in a browser, label, save"
    then = f"Then: python -m evals.golden {join(['label', str(file)])} --labels FILE [FILE ...] --write"
    return say(namespace, [f"{out}: {count}, of {systems} system{'s' * (systems != 1)}; {how}", then])


# Writing what people are to judge


def pooled_rows(namespace: argparse.Namespace, report: Report | None) -> tuple[list[dict[str, Any]], int]:
    """Return a row for each query and chunk to judge, and the number of systems that found the chunks.

    Queries come in judging order, and queries out of scope last. So, wherever a person stops, the judged queries are a
    random sample. The order of a query's chunks is random as well, and tells nothing of their ranks. Pairs that people
    have judged are left out. With a report, only its holes are asked for: returned chunks that nobody has judged, or
    on which its judge and the labels differ.
    """
    golden = golden_set(namespace.file)
    order = {case_id: number for number, case_id in enumerate(judging_order(golden.cases, namespace.seed))}
    cases = golden_set(golden, DatasetConfig(split=namespace.split)).cases
    systems = _systems(namespace, cases)
    holes = dict(_holes(report)) if report else None
    rows = []
    for case in sorted(cases, key=lambda case: order.get(case.id, len(order))):
        by_label = [item for item in case.evidence if item.labelled]
        pool = {chunk.chunk_id: chunk for chunks in systems for chunk in chunks.get(case.id, ())}
        for chunk in sorted(pool.values(), key=lambda chunk: uniform(namespace.seed, case.id, chunk.chunk_id)):
            differs = False if holes is None else holes.get((case.id, chunk.chunk_id))
            origin, text = (chunk.source_url, chunk.heading), normalise(chunk.text)
            labelled = (normalise(item.quote or "") for item in by_label if (item.source_url, item.heading) == origin)
            is_judged = chunk.chunk_id in case.human_verdicts or any(quote in text for quote in labelled)
            if text and differs is not None and (differs or not is_judged):
                rows.append(_row(case, chunk))
    if not rows and report is None and not any(case.human_verdicts or case.labelling for case in cases):
        raise DatasetError("the pool is empty: none of its systems found a chunk with text for a query of this file")
    return rows, len(systems)


def _holes(report: Report) -> Iterator[tuple[tuple[str, str], bool]]:
    """Yield query and chunk id of returned chunks in scope that nobody judged, or on which judge and label differ.

    Beside each stands whether they differ.
    """
    for row in (row for row in report.queries if row.in_scope):
        for hit in row.retrieved:
            is_judged = hit.chunk_id in row.relevant or hit.chunk_id in row.irrelevant
            if not is_judged or (hit.verdict is not None and hit.verdict != (hit.grade > 0)):
                yield (row.id, hit.chunk_id), is_judged


def _systems(namespace: argparse.Namespace, cases: Sequence[Case]) -> list[Mapping[str, Sequence[Chunk]]]:
    """Return the best chunks of each system by case id. Systems are saved retrievals, and a retriever.

    Raises:
        DatasetError: The flags name no system.
        RetrievalError: A saved retrieval cannot be read, or the retriever failed.
    """
    saved = [read(file, "--pool") for file in namespace.pool]
    found = [(pool.ids, table) for pool in saved for table in pool.variants.tables]
    config, env, is_named = retriever_settings(namespace)
    if is_named:
        with open_retriever(config, env=env) as retriever:
            found.append(([case.id for case in cases], collect(retriever, cases, lambda stage, done, total: None)))
    if not found:
        raise DatasetError("there is no pool: name saved retrievals with --pool FILE, or a retriever by --config FILE")
    return [
        {key: hits.chunks[: namespace.depth] for key, hits in zip(ids, candidates, strict=True)}
        for ids, candidates in found
    ]


def _row(case: Case, chunk: Chunk) -> dict[str, Any]:
    hint = "" if case.in_scope else "Out of scope: the documents are thought not to answer it."
    return {
        "case": case.id, "query": case.query, "reference_answer": case.reference_answer or hint,
        "asked": asked_hash(case), "chunk": chunk.chunk_id,
        "place": chunk.breadcrumb or chunk.source or chunk.chunk_id, "chunk_text": chunk.text,
        "source_url": chunk.source_url, "heading": chunk.heading,
    }  # fmt: skip


def asked_hash(case: Case) -> str:
    """Return the hash of the texts of a case that annotators read."""
    return digest(f"{case.query}\0{case.reference_answer or ''}")[:16]


def _as_csv(rows: Sequence[dict[str, Any]], annotator: str | None) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\r\n")
    writer.writeheader()
    for row in rows:
        cells = row | {"annotator": annotator}
        writer.writerow({name: f"'{cell}" if FORMULA.match(str(cell)) else cell for name, cell in cells.items()})
    return text.getvalue()


def _as_page(rows: Sequence[dict[str, Any]], namespace: argparse.Namespace) -> str:
    file, annotator = f"{namespace.file.stem}.labels.jsonl", namespace.annotator or ""
    # By this id the browser keeps the labels of each pool and person apart.
    pairs = [annotator, *((row["case"], row["asked"], row["chunk"]) for row in rows)]
    page_id = digest(json.dumps(pairs))[:16]
    # Each text is written once: a chunk may be in the pool of many queries.
    texts = {text: number for number, text in enumerate(dict.fromkeys(row["chunk_text"] for row in rows))}
    numbered = [row | {"chunk_text": texts[row["chunk_text"]]} for row in rows]
    data = {"id": page_id, "file": file, "annotator": annotator, "texts": [*texts], "rows": numbered}
    # A `<` could end the script that holds the data.
    text = json.dumps(data).replace("<", "\\u003c")
    return files("evals.golden").joinpath("page.html").read_text(encoding="utf-8").replace("DATA", text, 1)


# Reading the labels back


def read_labels(sources: Sequence[Path], annotator: str | None) -> list[Label]:
    """Return the labels of saved pages (JSON Lines) and spreadsheets (CSV), in their order.

    Args:
        sources: The files.
        annotator: Name of the annotator if a file has none; None for the name of the file.

    Raises:
        DatasetError: A file cannot be read, no file holds a label, or labels have faults. Each fault has its place.
    """
    labels, faults = list[Label](), list[str]()
    for file in sources:
        # Everybody may have got the same file, and have filled it in under its name.
        is_one = [other.stem for other in sources].count(file.stem) == 1
        name = file.stem if is_one else str(file.with_suffix(""))
        for place, cells in cells_of(file):
            if not isinstance(cells, dict):
                faults.append(f"{place}: {cells if isinstance(cells, Exception) else 'expected an object'}")
                continue
            row: dict[str, Any] = {"annotator": annotator or name[-80:]}
            if file.suffix.lower() == ".csv":
                filled = {name.strip().lower(): cell for name, cell in cells.items() if cell and cell.strip()}
                row |= {name: cell.removeprefix("'") for name, cell in filled.items()}
                row["quotes"] = row.get("quotes", "").splitlines()
                row["at"] = datetime.fromtimestamp(file.stat().st_mtime, UTC)
                if "grade" not in row:
                    faults += [f"{place}: quotes: expected a grade beside them"] * bool(row["quotes"])
                    continue
                text = normalise(row.get("chunk_text", ""))
                foreign = [quote for quote in row["quotes"] if text and normalise(quote) not in text]
                faults += [f"{place}: quotes: {quoted(quote)} does not stand in chunk_text" for quote in foreign]
            else:
                row |= cells
            try:
                labels.append(Label.model_validate(row))
            except ValidationError as error:
                faults += [f"{place}: {explain(dict(item))}" for item in error.errors(include_url=False)]
    if faults:
        raise refusal(faults)
    if not labels:
        raise DatasetError(f"{', '.join(map(str, sources))}: no label in them; label first")
    return labels


def standing(labels: Sequence[Label]) -> Labels:
    """Return the last label of each annotator, query and chunk, without skipped ones."""
    in_time = sorted(labels, key=attrgetter("at"))
    last = {(label.case, label.chunk, label.annotator): label for label in in_time}
    by_chunk: dict[str, dict[str, list[Label]]] = {}
    for (case_id, chunk_id, _), label in sorted(last.items(), key=itemgetter(0)):
        if label.grade is not None:
            by_chunk.setdefault(case_id, {}).setdefault(chunk_id, []).append(label)
    return by_chunk


def grade_of(labels: Sequence[Label]) -> int:
    """Return the grade of a chunk: the median of its labels, or the lower of two middle ones."""
    return median_low(label.grade or 0 for label in labels)


def write_labels(file: Path, labels: Labels) -> list[str]:
    """Write labels into a golden file, whole or not at all. Return the lines to print.

    Raises:
        DatasetError: The golden file changed since the labels were given, or is no JSON Lines file.
    """
    text = read_text(file, "golden .jsonl", MOST_BYTES, DatasetError)
    lines = [line for line in text.split("\n") if line.strip()]
    cases = golden_set(file).cases
    asked = {case.id: asked_hash(case) for case in cases}
    all_labels = (label for by_chunk in labels.values() for of_chunk in by_chunk.values() for label in of_chunk)
    if stale := dict.fromkeys(label.case for label in all_labels if label.asked != asked.get(label.case)):
        expected = "query or reference_answer of these cases changed after they were labelled, or they are gone"
        raise DatasetError(f"{file}: nothing is written: {expected}: {', '.join(stale)}")
    if len(lines) != len(cases) or not all(line.lstrip().startswith("{") for line in lines):
        raise DatasetError(f"{file}: expected one JSON object a line to write into; golden import {file} makes it")
    contradicting: list[str] = []
    for number, case in enumerate(cases):
        # The line of a case without labels stays as it is, byte by byte.
        if case.id in labels:
            changes, contradictions = merge(case, labels[case.id])
            row = {name: cell for name, cell in json.loads(lines[number]).items() if name not in OF_PASSAGES}
            lines[number] = json_lines([row | changes]).rstrip("\n")
            contradicting += [f"  {case.id}: {contradiction}" for contradiction in contradictions]
    write(file, "".join(f"{line}\n" for line in lines))
    head = f"{len(contradicting)} labels contradict the golden data, and need a decision:"
    return [f"{file}: labels of {len(labels)} cases are written", *([head, *contradicting] if contradicting else [])]


def merge(case: Case, labels: Mapping[str, Sequence[Label]]) -> tuple[dict[str, Any], list[str]]:
    """Return the fields of a case that labels of its chunks change, as JSON values, and the labels that contradict it.

    A labelled chunk becomes evidence of its grade: the quotes that were marked in it, or else its whole text. Grade 0
    says that the chunk was judged, and is not relevant. Evidence from a former label of the chunk is replaced.

    Args:
        case: The case.
        labels: Chunk id to the labels of the chunk.
    """
    former = {_passage(item): item for item in case.evidence}
    passages: dict[tuple[str | None, str], Evidence] = {}
    verdicts = dict(case.human_verdicts)
    contradictions: list[str] = []
    for chunk_id, of_chunk in labels.items():
        chunk, grade = of_chunk[0], grade_of(of_chunk)
        if grade and not case.in_scope:
            contradictions.append(f"chunk {chunk_id} has grade {grade}, and the case is out of scope; left out")
            continue
        text = normalise(chunk.chunk_text)
        of_page = [item for item in case.evidence if item.quote and item.source_url in (None, chunk.source_url)]
        inside = [item for item in of_page if normalise(item.quote or "") in text]
        whole = [item for item in inside if normalise(item.quote or "") == text]
        # A former label of this chunk made what has its page and heading. What people wrote stays beside it.
        origin = (chunk.source_url, chunk.heading)
        made = [item for item in inside if item.labelled and (item.source_url, item.heading) == origin]
        others = [item for item in of_page if item not in made and item.grade > grade]
        above = [item for item in others if holds_most(item.quote or "", text)]
        if above or case.relevant.get(chunk_id, 0) > grade:
            kept = "the label replaces it" if any(item in whole for item in above) else "both are kept"
            higher = f"has grade {grade}, and a higher one by evidence or relevant_ids"
            contradictions.append(f"chunk {chunk_id} {higher}; {kept}")
        marked = [quote for label in of_chunk if label.grade and grade for quote in label.quotes if quote.strip()]
        for item in (*made, *whole):
            former.pop(_passage(item), None)
        new = [chunk.evidence(quote, grade) for quote in marked or [chunk.chunk_text]]
        passages |= {_passage(evidence): evidence for evidence in new}
        if case.in_scope and case.reference_answer is not None:
            verdicts[chunk_id] = int(grade > 0)
    given = [label for of_chunk in labels.values() for label in of_chunk]
    latest = max(label.at for label in given).isoformat(timespec="seconds")
    by = {*(label.annotator for label in given), *(case.labelling.by if case.labelling else ())}
    changes = {
        "evidence": [item.model_dump(mode="json", exclude_none=True) for item in (former | passages).values()],
        **({"human_verdicts": verdicts} if verdicts else {}),
        "labelling": Labelling(by=sorted(by), at=latest).model_dump(mode="json"),
    }
    return changes, contradictions


def agreement(labels: Labels) -> str:
    """Return as a line how far annotators agree on relevance, over all pairs of labels of a chunk."""
    counts = np.zeros((2, 2))
    for of_chunk in (of_chunk for chunks in labels.values() for of_chunk in chunks.values()):
        for pair in combinations((int((label.grade or 0) > 0) for label in of_chunk), 2):
            counts[pair] += 1
    return f"Annotators: {_in_words(counts, 'pairs of labels') or 'no chunk was judged by two'}"


def with_judge(labels: Labels, report: Report) -> str:
    """Return as a line how far the judge of a run and people agree on the chunks that both judged."""
    counts = np.zeros((2, 2))
    for row in report.queries:
        for hit in row.retrieved:
            if hit.verdict is not None and (of_chunk := labels.get(row.id, {}).get(hit.chunk_id)):
                counts[int(grade_of(of_chunk) > 0), hit.verdict] += 1
    return f"Judge of {report.name}: {_in_words(counts, 'chunks') or NO_VERDICT}"


def _in_words(counts: Floats, unit: str) -> str:
    """Return the agreement in a table of two raters' labels, in words; empty for an empty table."""
    if not counts.any():
        return ""
    share, kappa = np.trace(counts) / counts.sum(), float(cohens_kappa(counts))
    return f"the same on {share:.0%} of {counts.sum():.0f} {unit} (kappa {kappa:.2f})"


def _passage(evidence: Evidence) -> tuple[str | None, str]:
    """Return the key of a piece of evidence: equal where the page and the quote are, or the heading without a quote."""
    return evidence.source_url, normalise(evidence.quote) if evidence.quote else f"\0{evidence.heading}"
