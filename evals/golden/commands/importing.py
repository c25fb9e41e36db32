"""`golden import`: golden queries out of test collections, tables, ragas' testsets and MLflow's traces."""

import argparse
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evals.config.files import check_writable, write
from evals.golden.commands import (
    NEAR,
    Subcommands,
    add_chunk_flags,
    cosine_argument,
    json_lines,
    named_chunks,
    named_settings,
    next_of_unlabelled,
    say,
)
from retrievers.config import MAX_QUERY_CHARACTERS, MAX_QUERY_WORDS, RetrieverConfig
from retrievers.config.layers import environment
from retrievers.terminal.command import add_logging_flags, path_argument, whole_number

if TYPE_CHECKING:
    from evals.golden.located_contexts import Located
    from evals.golden.mapped_columns import Row

TABLES = {
    "csv": "a CSV file, one query or one piece of evidence a line",
    "jsonl": "JSON Lines with other names than golden data's",
    "hf": "a Hugging Face dataset: a folder, a file, or a hub id with --revision",
    "ragas": "a testset or evaluation dataset of ragas, as CSV or JSON Lines",
}
# Contexts that were found nowhere are shown up to this many.
CONTEXTS_SHOWN = 10
MOST_TRACES = 10_000
GROUPS_SHOWN = 5


def add_import(commands: Subcommands) -> None:
    """Add the subcommand to a parser."""
    imports = commands.add_parser(
        "import", help="import queries and labels", description="Other formats to golden data."
    )
    formats = imports.add_subparsers(dest="format", required=True, metavar="FORMAT")
    _add_beir(formats)
    for name, about in TABLES.items():
        _add_table(formats, name, about)
    _add_traces(formats)


def _add_beir(formats: Subcommands) -> None:
    command = formats.add_parser("beir", help="a BEIR folder: queries.jsonl and qrels/*.tsv")
    command.add_argument("folder", type=path_argument, help="the folder")
    command.add_argument(
        "--qrels", type=path_argument, metavar="FILE", help="judgements (default: qrels/test.tsv in the folder)"
    )
    _add_out(command)
    command.set_defaults(run=_import_beir)


def _add_table(formats: Subcommands, name: str, about: str) -> None:
    command = formats.add_parser(name, help=about, description=f"Import {about}.")
    if name == "hf":
        command.add_argument("table", type=str, help="the folder, file or hub id")
        command.add_argument("--revision", metavar="COMMIT", help="commit hash; required with a hub id")
        command.add_argument("--split", default="train", help="split of the dataset (default: train)")
    else:
        command.add_argument("table", type=path_argument, help="the file")
    command.add_argument(
        "--column", action="append", default=[], metavar="FIELD=COLUMN",
        help="the column of a field, such as query=question; repeatable. contexts=… are passages, which are "
        "looked for in --docs or the collection",
    )  # fmt: skip
    add_chunk_flags(command)
    _add_out(command)
    command.set_defaults(run=_import_table)


def _add_traces(formats: Subcommands) -> None:
    about = "skeletons of the queries in MLflow's traces of a retriever, clustered, the most frequent first"
    command = formats.add_parser("traces", help=about, description=f"Write {about}.")
    command.add_argument("experiment", help="name of MLflow's experiment that has the traces")
    command.add_argument(
        "--tracking.uri",
        dest="uri",
        metavar="URI",
        help="MLflow on a SQL database; the one under ./mlruns when left out",
    )
    command.add_argument(
        "--most",
        type=whole_number(1),
        default=MOST_TRACES,
        metavar="N",
        help=f"newest traces to read (default: {MOST_TRACES})",
    )
    command.add_argument(
        "--near", type=cosine_argument, default=NEAR, metavar="COSINE",
        help=f"queries as alike are one, by the packaged embeddings (default: {NEAR})",
    )  # fmt: skip
    _add_out(command)
    command.set_defaults(run=_import_traces)


def _add_out(command: argparse.ArgumentParser) -> None:
    command.add_argument("-o", "--out", type=path_argument, required=True, metavar="FILE", help="golden file to write")
    add_logging_flags(command)


def _import_beir(namespace: argparse.Namespace) -> int:
    from evals.golden.importers import import_beir

    check_writable(namespace.out)
    imported = import_beir(namespace.folder, namespace.qrels)
    rows = [case.model_dump(exclude_defaults=True) | {"in_scope": True} for case in imported.cases]
    write(namespace.out, json_lines(rows))
    relevant = sum(len(case.relevant) for case in imported.cases)
    judged = sum(len(case.relevant_ids) for case in imported.cases)
    lines = [
        f"{namespace.out}: {len(imported.cases)} cases with {relevant} relevant documents, "
        f"{judged - relevant} judged and not relevant",
        *(f"  {note}" for note in imported.notes),
        "  relevant_ids must equal the chunk_id or the source_document_id of your collection (see metadata.map)",
    ]
    return say(namespace, lines)


def _import_table(namespace: argparse.Namespace) -> int:
    from evals.config.telemetry import silence
    from evals.golden.loading import validate_rows
    from evals.golden.mapped_columns import RAGAS, mapped, parse_columns

    check_writable(namespace.out)
    columns = parse_columns(namespace.column, RAGAS if namespace.format == "ragas" else {})
    silence(hub=namespace.format == "hf" and not Path(namespace.table).exists())
    named = [text.partition("=")[0].strip() for text in namespace.column]
    rows = mapped(_rows(namespace), columns, named)
    rows, notes = _with_evidence(rows, namespace)
    cases, _ = validate_rows(rows)
    write(namespace.out, json_lines([case.model_dump(exclude_defaults=True) for case in cases]))
    outside = sum(not case.in_scope for case in cases)
    lines = [f"{namespace.out}: {len(cases)} cases of {namespace.table}, {outside} of them out of scope", *notes]
    if unlabelled := sum(case.is_unlabelled for case in cases):
        lines.append(next_of_unlabelled(unlabelled, namespace.out))
    return say(namespace, lines)


def _rows(namespace: argparse.Namespace) -> "list[Row]":
    from evals.golden.mapped_columns import csv_rows, hub_rows, json_rows

    if namespace.format == "hf":
        return hub_rows(namespace.table, revision=namespace.revision, split=namespace.split)
    as_csv = namespace.format == "csv" or (namespace.format == "ragas" and namespace.table.suffix.lower() == ".csv")
    return csv_rows(namespace.table) if as_csv else json_rows(namespace.table)


def _with_evidence(rows: "list[Row]", namespace: argparse.Namespace) -> "tuple[list[Row], list[str]]":
    """Put evidence in the place of contexts; a case of which none was found is left out, with a line."""
    from evals.golden.located_contexts import ContextFinder

    if not any("contexts" in row for _, row in rows):
        return rows, []
    env = environment(os.environ)
    config, is_named = named_settings(namespace, env)
    finder = ContextFinder(named_chunks(namespace, config, env)) if is_named else None
    cases: list[Row] = []
    places: list[tuple[str, str, Located | None]] = []
    for line, row in rows:
        contexts = row.pop("contexts", [])
        contexts_of_row = [(line, text, finder.find(text) if finder else None) for text in contexts]
        places += contexts_of_row
        evidence = [e for _, text, match in contexts_of_row for e in (match.evidence if match else ({"quote": text},))]
        case = row | ({"evidence": [*row.get("evidence", []), *evidence]} if evidence else {})
        if evidence or not contexts:
            cases.append((line, case))
    return cases, _notes(places, left_out=len(rows) - len(cases), table=namespace.table)


def _notes(places: "list[tuple[str, str, Located | None]]", *, left_out: int, table: Path | str) -> list[str]:
    located: list[tuple[str, str, Any]] = [(line, text, match) for line, text, match in places if match]
    if not located:
        return [f"  {len(places)} contexts are quotes without a page: name --docs or the collection to have them found"]
    counts = Counter(match.how for _, _, match in located)
    alike = [match.score for _, _, match in located if match.how == "alike"]
    lines = [f"  {len(located)} contexts: " + ", ".join(f"{how} {count}" for how, count in counts.most_common())]
    if alike:
        lines.append(f"  alike: similarity {min(alike):.0f} to {max(alike):.0f} of 100; read these quotes")
    lost = [(line, text, match) for line, text, match in located if match.how == "not found"]
    lines += [
        f"  {line}: not found (most alike {match.score:.0f} of 100): {text[:60]!r}"
        for line, text, match in lost[:CONTEXTS_SHOWN]
    ]
    if left_out:
        lines.append(f"  {left_out} cases of {table} were left out, since none of their contexts was found")
    return lines


def _import_traces(namespace: argparse.Namespace) -> int:
    from evals.golden.query_clusters import clusters
    from evals.golden.synthesis.passages import embedder
    from evals.tracking import read_queries
    from retrievers.embedding.models import make_embeddings

    check_writable(namespace.out)
    queries = read_queries(namespace.experiment, namespace.uri, most=namespace.most)
    usable = [query for query in queries if _can_be_asked(query)]
    embed = embedder(make_embeddings(RetrieverConfig.model_validate({}).embedding, {}))
    groups = clusters(usable, embed, namespace.near)
    rows = [
        {"id": f"case-{number:03d}", "query": group[0], "tags": ["traced"]} for number, group in enumerate(groups, 1)
    ]
    write(namespace.out, json_lines(rows))
    too_long = [f"  {len(queries) - len(usable)} too long to be golden queries"] if len(usable) < len(queries) else []
    return say(
        namespace,
        [
            f"{namespace.out}: {len(rows)} skeletons of {len(queries)} traced queries, the most frequent first",
            *(f"  {len(group)} × {group[0]!r}" for group in groups[:GROUPS_SHOWN]),
            *too_long,
            next_of_unlabelled(len(rows), namespace.out),
        ],
    )


def _can_be_asked(query: str) -> bool:
    return len(query) <= MAX_QUERY_CHARACTERS and len(query.split()) <= MAX_QUERY_WORDS
