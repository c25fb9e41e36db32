"""`golden label`: chunks for people to judge, as a page or a spreadsheet, and their labels into the golden file."""

import argparse
import csv
import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from evals.cases.case import Case
from evals.cases.reading import golden_set
from evals.collect.passes import collect
from evals.collect.saved import read
from evals.config.experiment import DatasetConfig
from evals.config.files import check_writable, replacing
from evals.errors import DatasetError
from evals.golden.chunks import named_chunks, retriever_settings, say
from evals.golden.labels import Pair, agreement, asked_hash, merge, read_labels
from evals.report.model import Report
from evals.sampling.order import judging_order, uniform
from retrievers.config.paths import make_private
from retrievers.records import Chunk
from retrievers.retriever.opened import open_retriever

COLUMNS = (
    *("case", "query", "reference_answer", "chunk", "place", "chunk_text", "grade", "quotes", "note", "annotator"),
    *("source_url", "heading", "asked", "pool", "depth"),
)
# A cell that begins so is a formula to a spreadsheet; a quotation mark before it makes it text.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "'")


def label(namespace: argparse.Namespace) -> int:
    """Run the command: write a page or spreadsheet, or read the labels back.

    Raises:
        DatasetError: The pool is empty, or labels have faults, each with its place.
    """
    if not namespace.file.is_file():
        raise DatasetError(f"{namespace.file}: expected a golden .jsonl file; begin one with: golden init, or import")
    report = _report(namespace.report)
    if namespace.labels:
        labels = read_labels(namespace.labels, namespace.annotator)
        people = ", ".join(sorted({one.annotator for one in labels.values()}))
        count = f"{len(labels)} labels by {people}"
        if namespace.write:
            return say(namespace, [count, *merge(namespace.file, labels), *agreement(labels, verdicts_of(report))])
        command = (
            f"python -m evals.golden label {namespace.file} --labels {' '.join(map(str, namespace.labels))} --write"
        )
        return say(namespace, [count, *agreement(labels, verdicts_of(report)), f"Next: {command}"])
    if namespace.write:
        raise DatasetError("--write: expected the files of labels to write: --labels FILE [FILE ...]")
    out: Path = namespace.out or namespace.file.with_suffix(".label.html")
    check_writable(out)
    rows = pooled_rows(namespace, report)
    if not rows:
        return say(namespace, ["No chunk is left to judge: people's verdicts and labels hold all of the pool"])
    with replacing(out) as part:
        # Queries, answers and chunks may be nobody else's business.
        make_private(part)
        part.write_text(_as_csv(rows) if out.suffix.lower() == ".csv" else _as_page(rows, namespace), encoding="utf-8")
    queries = len({row["case"] for row in rows})
    how = "fill in its column grade (0 to 3)" if out.suffix.lower() == ".csv" else "open it in a browser, label, save"
    return say(
        namespace,
        [
            f"{out}: {len(rows)} chunks of {queries} queries to judge, of {', '.join(rows[0]['pool'])}; {how}",
            f"Then: python -m evals.golden label {namespace.file} --labels FILE [FILE ...] --write",
        ],
    )


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
    depth = namespace.depth
    if report:
        texts = {chunk.chunk_id: chunk for chunk in named_chunks(namespace) or _pooled_chunks(namespace)}
        if not texts:
            raise DatasetError("--report: name where its chunks are read: --config or --collection, --docs, or --pool")
        open_pairs = holes(report)
        systems = {report.name: {c.id: [texts[k] for k in open_pairs.get(c.id, ()) if k in texts] for c in cases}}
        depth = max(1, *(len(row.retrieved) for row in report.queries), 1)
    else:
        systems = dict(_systems(namespace, cases))
    rows = []
    for case in sorted(cases, key=lambda case: order.get(case.id, len(order))):
        chunks = {c.chunk_id: c for ranking in systems.values() for c in ranking.get(case.id, ())}
        for chunk in sorted(chunks.values(), key=lambda c: uniform(namespace.seed, case.id, c.chunk_id)):
            if chunk.text.strip() and chunk.chunk_id not in case.human_verdicts:
                rows.append(_row(case, chunk) | {"pool": list(systems), "depth": depth})
    if not rows and not report and not any(case.human_verdicts for case in cases):
        raise DatasetError("the pool is empty: none of its systems found a chunk with text for a query of this file")
    return rows


def holes(report: Report) -> dict[str, list[str]]:
    """Return the chunks that a report returned in scope and a label can change: unjudged, or judged in two ways."""
    return {
        row.id: [
            hit.chunk_id
            for hit in row.retrieved
            if (hit.chunk_id not in row.relevant and hit.chunk_id not in row.irrelevant)
            or (hit.verdict is not None and hit.verdict != int(hit.grade > 0))
        ]
        for row in report.queries
        if row.in_scope
    }


def verdicts_of(report: Report | None) -> dict[Pair, int]:
    """Return a judge's verdicts in a report, by case and chunk id."""
    return {
        (row.id, hit.chunk_id): hit.verdict
        for row in (report.queries if report else ())
        for hit in row.retrieved
        if hit.verdict is not None
    }


def _report(file: Path | None) -> Report | None:
    from evals.tracking.find import open_run

    return None if file is None else open_run(str(file), None, "").report


def _systems(namespace: argparse.Namespace, cases: Sequence[Case]) -> Iterator[tuple[str, dict[str, list[Chunk]]]]:
    """Yield the systems of the pool, each with its best chunks by case id: saved retrievals, and one that is asked now.

    Raises:
        DatasetError: None is named, or two searched different collections.
        RetrievalError: A saved retrieval cannot be read, or the retriever failed.
    """
    ids, first = {case.id for case in cases}, None
    for file in namespace.pool:
        saved = read(file, "--pool")
        facts = saved.origin.collection
        first = first or (facts and (file, facts))
        if facts and first and facts["fingerprint"] != first[1]["fingerprint"]:
            raise DatasetError(
                f"the pool is of different collections: {first[0]} of {first[1]['name']!r}, {file} of "
                f"{facts['name']!r}; chunk ids of one mean nothing in the other. Retrieve both from the same collection"
            )
        for number in range(len(saved.lists)):
            table = zip(saved.ids, saved.table(number, np.arange(len(saved.ids))), strict=True)
            best = {case_id: list(found.chunks[: namespace.depth]) for case_id, found in table if case_id in ids}
            yield f"{file.name}#{number + 1}" if len(saved.lists) > 1 else file.name, best
    config, env, is_named = retriever_settings(namespace)
    if is_named:
        with open_retriever(config, env=env) as retriever:
            tables = collect(retriever, cases, lambda stage, done, total: None)
            best = {case.id: list(t.chunks[: namespace.depth]) for case, t in zip(cases, tables, strict=True)}
        yield namespace.config.name if namespace.config else config.collection, best
    elif not namespace.pool:
        raise DatasetError("there is no pool: name saved retrievals with --pool FILE, or a retriever by --config FILE")


def _pooled_chunks(namespace: argparse.Namespace) -> Iterator[Chunk]:
    for file in namespace.pool:
        saved = read(file, "--pool")
        for number in range(len(saved.lists)):
            for found in saved.table(number, np.arange(len(saved.ids))):
                yield from found.chunks


def _row(case: Case, chunk: Chunk) -> dict[str, Any]:
    out = "" if case.in_scope else "Out of scope: the documents are thought not to answer it."
    return {
        "case": case.id, "query": case.query, "reference_answer": case.reference_answer or out,
        "asked": asked_hash(case),
        "chunk": chunk.chunk_id, "place": chunk.breadcrumb or chunk.source or chunk.chunk_id, "chunk_text": chunk.text,
        "source_url": chunk.source_url, "heading": chunk.heading,
    }  # fmt: skip


def _as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\r\n", extrasaction="raise")
    writer.writeheader()
    for row in rows:
        cells = {**row, "pool": " ".join(row["pool"])}
        writer.writerow({name: f"'{cell}" if str(cell).startswith(FORMULA) else cell for name, cell in cells.items()})
    return text.getvalue()


def _as_page(rows: Sequence[Mapping[str, Any]], namespace: argparse.Namespace) -> str:
    # The browser keeps the labels of each pool apart.
    pool = hashlib.sha256(json.dumps([(row["case"], row["asked"], row["chunk"]) for row in rows]).encode()).hexdigest()
    data = {
        "id": pool[:16],
        "file": f"{namespace.file.stem}.labels.jsonl",
        "annotator": namespace.annotator or "",
        "rows": rows,
    }
    # In a script, `<` could end it.
    text = json.dumps(data).replace("<", "\\u003c")
    return files("evals.golden").joinpath("page.html").read_text(encoding="utf-8").replace("DATA", text, 1)
