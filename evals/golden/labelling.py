"""`golden label`: chunks for people to judge, as a page or a spreadsheet, and their labels into the golden file."""

import argparse
import csv
import hashlib
import io
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from statistics import median_low
from typing import Any, Self

import numpy as np
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from evals.cases.case import Case, Evidence, Labelling, Text
from evals.cases.reading import MOST_BYTES, cells_of, explain, golden_set, refusal
from evals.cases.relevance import normalise
from evals.collect.passes import collect
from evals.collect.saved import read
from evals.config.experiment import DatasetConfig
from evals.config.files import check_writable, replacing, write
from evals.errors import DatasetError
from evals.golden.chunks import json_lines, named_chunks, retriever_settings, say
from evals.report.model import Report
from evals.sampling.order import judging_order, uniform
from evals.stats.kappa import cohens_kappa
from retrievers.config.files import make_private, read_text
from retrievers.records import Chunk
from retrievers.retriever.opened import open_retriever

MOST_GRADE = 3
COLUMNS = (
    *("case", "query", "reference_answer", "chunk", "place", "chunk_text", "grade", "quotes", "note", "annotator"),
    *("source_url", "heading", "asked", "pool", "depth"),
)
# A cell that begins so is a formula to a spreadsheet; a quotation mark before it makes it text.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "'")


class Label(BaseModel):
    """What an annotator says of a chunk for a query.

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

    def evidence(self, quote: str, grade: int) -> Evidence:
        """Return a passage of the chunk as evidence."""
        return Evidence(source_url=self.source_url, heading=self.heading, quote=quote, grade=grade)


class Labels(dict[tuple[str, str], dict[str, Label]]):
    """Case and chunk id to annotator to the label that counts, which is the last one."""

    @classmethod
    def of(cls, labels: Sequence[Label]) -> Self:
        """Return the last label of each person, query and chunk, but for skipped ones."""
        last = {(one.case, one.chunk, one.annotator): one for one in labels}
        result = cls()
        for (case_id, chunk_id, annotator), one in sorted(last.items(), key=lambda entry: entry[0]):
            if one.grade is not None:
                result.setdefault((case_id, chunk_id), {})[annotator] = one
        return result

    def of_case(self, case_id: str) -> Iterator[tuple[str, Sequence[Label], int]]:
        """Yield the judged chunks of a case, each with its labels and grade: their median, of two the lower one."""
        for (of_case, chunk_id), by_annotator in self.items():
            if of_case == case_id:
                own = list(by_annotator.values())
                yield chunk_id, own, median_low(one.grade or 0 for one in own)


def label(namespace: argparse.Namespace) -> int:
    """Run the command: write a page or spreadsheet, or read the labels back.

    Raises:
        DatasetError: The pool is empty, or labels have faults, each with its place.
    """
    from evals.tracking.find import open_run

    file: Path = namespace.file
    if not file.is_file():
        raise DatasetError(f"{file}: expected a golden .jsonl file; begin one with: golden init, or import")
    report = open_run(str(namespace.report), None, "").report if namespace.report else None
    if namespace.write and not namespace.labels:
        raise DatasetError("--write: expected the files of labels to write: --labels FILE [FILE ...]")
    if namespace.labels:
        given = read_labels(namespace.labels, namespace.annotator)
        labels = Labels.of(given)
        judged = {
            (row.id, hit.chunk_id): hit.verdict for row in (report.queries if report else ()) for hit in row.retrieved
        }
        lines = [f"{len(given)} labels by {', '.join(sorted({one.annotator for one in given}))}"]
        lines += write_labels(file, labels) if namespace.write else []
        lines += agreement(labels, {pair: verdict for pair, verdict in judged.items() if verdict is not None})
        again = f"python -m evals.golden label {file} --labels {' '.join(map(str, namespace.labels))} --write"
        return say(namespace, [*lines, *([] if namespace.write else [f"Next: {again}"])])
    out: Path = namespace.out or file.with_suffix(".label.html")
    check_writable(out)
    rows = pooled_rows(namespace, report)
    if not rows:
        return say(namespace, ["No chunk is left to judge: people's verdicts and labels hold all of the pool"])
    in_csv = out.suffix.lower() == ".csv"
    with replacing(out) as part:
        # Queries, answers and chunks may be nobody else's business.
        make_private(part)
        part.write_text(_as_csv(rows) if in_csv else _as_page(rows, namespace), encoding="utf-8")
    count = f"{len(rows)} chunks of {len({row['case'] for row in rows})} queries to judge"
    how = "fill in its column grade (0 to 3)" if in_csv else "open it in a browser, label, save"
    then = f"Then: python -m evals.golden label {file} --labels FILE [FILE ...] --write"
    return say(namespace, [f"{out}: {count}, of {', '.join(rows[0]['pool'])}; {how}", then])


# What is asked


def pooled_rows(namespace: argparse.Namespace, report: Report | None) -> list[dict[str, Any]]:
    """Return a row for each query and chunk to judge.

    Queries come in the order in which a judge takes them, so that the first ones, wherever a person stops, are a random
    sample; those out of scope come last. The order of a query's chunks says nothing of who ranked them how. Pairs that
    people have judged already are left out.

    Args:
        namespace: The arguments of the command.
        report: Ask for what this report returned and nobody has judged, or its judge and the labels differ on.
    """
    golden = golden_set(namespace.file)
    order = {case_id: number for number, case_id in enumerate(judging_order(golden.cases, namespace.seed))}
    cases = golden_set(golden, DatasetConfig(split=namespace.split)).cases
    systems = dict(_holes(namespace, report) if report else _systems(namespace, cases))
    rows = []
    for case in sorted(cases, key=lambda case: order.get(case.id, len(order))):
        chunks = {c.chunk_id: c for best in systems.values() for c in best.get(case.id, ())}
        for chunk in sorted(chunks.values(), key=lambda c: uniform(namespace.seed, case.id, c.chunk_id)):
            if chunk.text.strip() and chunk.chunk_id not in case.human_verdicts:
                rows.append(_row(case, chunk) | {"pool": list(systems), "depth": namespace.depth})
    if not rows and not report and not any(case.human_verdicts for case in cases):
        raise DatasetError("the pool is empty: none of its systems found a chunk with text for a query of this file")
    return rows


def _holes(namespace: argparse.Namespace, report: Report) -> Iterator[tuple[str, Mapping[str, list[Chunk]]]]:
    """Yield what a report returned in scope and a label can change: chunks unjudged, or judged in two ways."""
    saved = (
        chunk for file in namespace.pool for _, best in _saved(file, None) for own in best.values() for chunk in own
    )
    texts = {chunk.chunk_id: chunk for chunk in named_chunks(namespace) or saved}
    if not texts:
        raise DatasetError("--report: name where its chunks are read: --config or --collection, --docs, or --pool")
    holes: dict[str, list[Chunk]] = defaultdict(list)
    for row in (row for row in report.queries if row.in_scope):
        for hit in (hit for hit in row.retrieved if hit.chunk_id in texts):
            is_judged = hit.chunk_id in row.relevant or hit.chunk_id in row.irrelevant
            is_disputed = hit.verdict is not None and hit.verdict != int(hit.grade > 0)
            if is_disputed or not is_judged:
                holes[row.id].append(texts[hit.chunk_id])
    yield report.name, holes


def _systems(namespace: argparse.Namespace, cases: Sequence[Case]) -> Iterator[tuple[str, Mapping[str, list[Chunk]]]]:
    """Yield the systems of the pool, each with its best chunks by case id: saved retrievals, and one that is asked now.

    Raises:
        DatasetError: None is named, or two searched different collections.
        RetrievalError: A saved retrieval cannot be read, or the retriever failed.
    """
    collections: dict[str | None, str] = {}
    for file in namespace.pool:
        facts = read(file, "--pool").origin.collection or {}
        collections.setdefault(facts.get("fingerprint"), f"{file} of {facts.get('name')!r}")
        yield from _saved(file, namespace.depth)
    if len(collections) > 1:
        searched = ", ".join(collections.values())
        raise DatasetError(f"the pool is of different collections: {searched}; retrieve all from the same one")
    config, env, is_named = retriever_settings(namespace)
    if is_named:
        with open_retriever(config, env=env) as retriever:
            tables = collect(retriever, cases, lambda stage, done, total: None)
            best = {case.id: list(t.chunks[: namespace.depth]) for case, t in zip(cases, tables, strict=True)}
        yield namespace.config.name if namespace.config else config.collection, best
    elif not namespace.pool:
        raise DatasetError("there is no pool: name saved retrievals with --pool FILE, or a retriever by --config FILE")


def _saved(file: Path, depth: int | None) -> Iterator[tuple[str, Mapping[str, list[Chunk]]]]:
    saved = read(file, "--pool")
    for number in range(len(saved.lists)):
        table = saved.table(number, np.arange(len(saved.ids)))
        best = {case_id: list(found.chunks[:depth]) for case_id, found in zip(saved.ids, table, strict=True)}
        yield f"{file.name}#{number + 1}" if len(saved.lists) > 1 else file.name, best


def _row(case: Case, chunk: Chunk) -> dict[str, Any]:
    out = "" if case.in_scope else "Out of scope: the documents are thought not to answer it."
    return {
        "case": case.id, "query": case.query, "reference_answer": case.reference_answer or out,
        "asked": asked_hash(case), "chunk": chunk.chunk_id,
        "place": chunk.breadcrumb or chunk.source or chunk.chunk_id, "chunk_text": chunk.text,
        "source_url": chunk.source_url, "heading": chunk.heading,
    }  # fmt: skip


def asked_hash(case: Case) -> str:
    """Return the hash of what annotators read of a case."""
    return hashlib.sha256(f"{case.query}\0{case.reference_answer or ''}".encode()).hexdigest()[:16]


def _as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\r\n")
    writer.writeheader()
    for row in rows:
        cells = {**row, "pool": " ".join(row["pool"])}
        writer.writerow({name: f"'{cell}" if str(cell).startswith(FORMULA) else cell for name, cell in cells.items()})
    return text.getvalue()


def _as_page(rows: Sequence[Mapping[str, Any]], namespace: argparse.Namespace) -> str:
    # The browser keeps the labels of each pool apart.
    pool = hashlib.sha256(json.dumps([(row["case"], row["asked"], row["chunk"]) for row in rows]).encode()).hexdigest()
    file, annotator = f"{namespace.file.stem}.labels.jsonl", namespace.annotator or ""
    data = {"id": pool[:16], "file": file, "annotator": annotator, "rows": rows}
    # In a script, `<` could end it.
    text = json.dumps(data).replace("<", "\\u003c")
    return files("evals.golden").joinpath("page.html").read_text(encoding="utf-8").replace("DATA", text, 1)


# What was answered


def read_labels(sources: Sequence[Path], annotator: str | None = None) -> list[Label]:
    """Return the labels of saved pages (JSON Lines) and spreadsheets (CSV), in their order.

    Args:
        sources: The files.
        annotator: Name of the person, where a spreadsheet names none.

    Raises:
        DatasetError: A file cannot be read, or holds no label; every fault with its place.
    """
    labels: list[Label] = []
    faults = []
    for file in sources:
        stamp = datetime.fromtimestamp(file.stat().st_mtime, UTC) if file.is_file() else None
        for place, cells in cells_of(file):
            row = _of_sheet(cells) if file.suffix.lower() == ".csv" else cells
            if not isinstance(row, dict):
                faults.append(f"{place}: {row if isinstance(row, Exception) else 'expected an object'}")
            elif row:
                try:
                    labels.append(Label.model_validate({"annotator": annotator or "", "at": stamp, **row}))
                except ValidationError as error:
                    faults += [f"{place}: {explain(dict(item))}" for item in error.errors(include_url=False)]
    if faults:
        raise refusal(faults)
    if not labels:
        raise DatasetError(f"{', '.join(map(str, sources))}: no label in them; label first")
    return labels


def _of_sheet(cells: Any) -> Any:
    """Return the cells of a row as a label; nothing where it has no grade."""
    if isinstance(cells, Exception) or not (cells.get("grade") or "").strip():
        return cells if isinstance(cells, Exception) else {}
    row = {name: cell.removeprefix("'") for name, cell in cells.items() if name in Label.model_fields and cell}
    return row | {"pool": row.get("pool", "").split(), "quotes": row.get("quotes", "").splitlines()}


def write_labels(file: Path, labels: Labels) -> list[str]:
    """Write labels into a golden file, whole or not at all; return what there is to say of them.

    Raises:
        DatasetError: The golden file changed since they were given.
    """
    before = read_text(file, "golden .jsonl", MOST_BYTES, DatasetError)
    cases = golden_set(file).cases
    asked = {case.id: asked_hash(case) for case in cases}
    stale = [one.case for own in labels.values() for one in own.values() if one.asked != asked.get(one.case)]
    if stale:
        expected = "query or reference_answer of these cases changed after they were labelled, or they are gone"
        raise DatasetError(f"{file}: nothing is written: {expected}: {', '.join(dict.fromkeys(stale))}")
    lines = [line for line in before.splitlines() if line.strip()]
    if len(lines) != len(cases) or not all(line.lstrip().startswith("{") for line in lines):
        raise DatasetError(f"{file}: expected one JSON object a line to write into; golden import {file} makes it")
    changes = {case.id: changed for case in cases if (changed := merged(case, labels))}
    # The lines of cases without labels stay as they are, to the byte.
    written = [
        json_lines([json.loads(line) | changes[case.id]]) if case.id in changes else f"{line}\n"
        for case, line in zip(cases, lines, strict=True)
    ]
    write(file, "".join(written))
    against = [f"  {line}" for case in cases for line in contradictions(case, labels)]
    both = f"{len(against)} labels contradict the golden data; both are kept, and need a decision:"
    return [
        f"{file}: labels of {len(changes)} cases are written",
        *([both, *against] if against else []),
        f"Next: python -m evals.golden check {file}, then a run on it (dataset.path)",
    ]


def merged(case: Case, labels: Labels) -> dict[str, Any]:
    """Return the fields of a case that labels change, as JSON values; empty where it has no label.

    A labelled chunk becomes evidence of its grade: by the quotes that were marked in it, else by its whole text; 0 is
    judged, not relevant.
    """
    passages = {_passage(item): item for item in case.evidence}
    verdicts, every = dict(case.human_verdicts), list[Label]()
    for chunk_id, own, grade in labels.of_case(case.id):
        every += own
        whole = own[0].chunk_text
        marked = [quote for one in own if one.grade and grade for quote in one.quotes if quote.strip()]
        # What a former label said of the whole chunk is replaced.
        if case.in_scope or not grade:
            passages.pop(_passage(own[0].evidence(whole, grade)), None)
            new = [own[0].evidence(quote, grade) for quote in marked or [whole]]
            passages |= {_passage(item): item for item in new}
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
    evidence = [item.model_dump(mode="json", exclude_none=True) for item in passages.values()]
    human = {"human_verdicts": verdicts} if verdicts else {}
    return {"evidence": evidence, **human, "labelling": labelling.model_dump(mode="json")}


def contradictions(case: Case, labels: Labels) -> list[str]:
    """Return what labels say against the golden data, a line each: neither is changed by the other."""
    lines = []
    for chunk_id, own, grade in labels.of_case(case.id):
        text = normalise(own[0].chunk_text)
        held = [item.quote for item in case.relevant_evidence if item.quote and normalise(item.quote) in text]
        if grade and not case.in_scope:
            lines.append(f"{case.id}: chunk {chunk_id} has grade {grade}, and the case is out of scope")
        if not grade and (held or case.relevant.get(chunk_id)):
            why = f"holds the evidence “{held[0][:60]}”" if held else "stands in relevant_ids"
            lines.append(f"{case.id}: chunk {chunk_id} has grade 0, and {why}")
    return lines


def agreement(labels: Labels, judge: Mapping[tuple[str, str], int]) -> list[str]:
    """Return the agreement, a line each: alpha, kappa of every pair of annotators, and of each with the judge.

    Args:
        labels: The labels that count.
        judge: Verdicts of a judge by case and chunk id, 1 useful or 0; a grade above 0 is the same as 1.
    """
    grades = {pair: {name: one.grade or 0 for name, one in own.items()} for pair, own in labels.items()}
    annotators = sorted({name for given in grades.values() for name in given})
    doubly = [list(given.values()) for given in grades.values() if len(given) > 1]
    lines = [f"Krippendorff's alpha (ordinal): {_shown(krippendorff_alpha(doubly))} over {len(doubly)} chunks"] * bool(
        doubly
    )
    for first, second in combinations(annotators, 2):
        if both := [(given[first], given[second]) for given in grades.values() if {first, second} <= given.keys()]:
            lines.append(f"Cohen's kappa of {first} and {second}: {_shown(_kappa(both))} over {len(both)} chunks")
    for name in annotators:
        if both := [
            (int(given[name] > 0), judge[key]) for key, given in grades.items() if name in given and key in judge
        ]:
            same = f"{name} and the judge: the same in {sum(a == b for a, b in both)} of {len(both)} chunks"
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
    if np.count_nonzero(totals) < 2:
        return None
    cumulated = np.cumsum(totals) - totals / 2
    distance = (cumulated[:, None] - cumulated[None, :]) ** 2
    expected = (np.outer(totals, totals) * distance).sum() / (totals.sum() - 1)
    return float(1 - (coincidences * distance).sum() / expected)


def _passage(evidence: Evidence) -> tuple[str | None, str]:
    """Return what two pieces of evidence have in common that quote the same passage of the same page."""
    return evidence.source_url, normalise(evidence.quote or "")


def _kappa(pairs: Sequence[tuple[int, int]]) -> float | None:
    """Return Cohen's kappa of two raters; None where both give all of them one grade."""
    counts = np.zeros((MOST_GRADE + 1, MOST_GRADE + 1))
    np.add.at(counts, tuple(np.asarray(pairs).T), 1)
    is_one = np.count_nonzero(counts.sum(axis=0) + counts.sum(axis=1)) < 2
    return None if is_one else float(cohens_kappa(counts))


def _shown(value: float | None) -> str:
    return "not computable (all say the same)" if value is None else f"{value:.3f}"
