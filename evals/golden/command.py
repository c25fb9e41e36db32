"""`python -m evals.golden validate | import | export | init`: check, exchange and create golden queries."""

import argparse
import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evals.config.files import check_writable, write
from retrievers.config import RetrieverConfig
from retrievers.config.layers import add_flags, build, environment, environment_layer, flag_layer
from retrievers.config.settings_file import file_layer
from retrievers.terminal.command import (
    Parser,
    add_logging_flags,
    path_argument,
    print_out,
    run,
    set_up_logging,
    whole_number,
)
from retrievers.text.printable import json_text

if TYPE_CHECKING:
    from evals.golden.case import Case, Evidence
    from evals.golden.loading import GoldenSet
    from evals.golden.source_pages import SourcePage
    from retrievers.records import Chunk


def main(arguments: Sequence[str] | None = None, prog: str = "python -m evals.golden") -> int:
    """Parse and run; return the exit code. Usage and errors call the command `prog`."""
    namespace = _parser(prog).parse_args(arguments)
    return run(lambda: _run(namespace))


def _run(namespace: argparse.Namespace) -> int:
    set_up_logging(verbose=namespace.verbose, log_file=namespace.log_file, quiet=namespace.quiet)
    command = {"validate": _validate, "import": _import, "export": _export, "init": _init}[namespace.command]
    lines = command(namespace)
    if not namespace.quiet:
        print_out("\n".join(lines))
    return 0


def _parser(prog: str) -> argparse.ArgumentParser:
    parser = Parser(prog=prog, description="Check golden queries, import some, begin some.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    validate = commands.add_parser("validate", help="check a golden file", description="List every fault of a file.")
    validate.add_argument("file", type=path_argument, help="golden .jsonl file, or a folder of them")
    validate.add_argument(
        "--docs", type=path_argument, metavar="DIR", help="also find every piece of evidence in these pages"
    )
    validate.add_argument("--base-url", default="/docs", help="what page addresses begin with (default: /docs)")
    imports = commands.add_parser(
        "import", help="import a test collection", description="BEIR, TREC or an MLflow dataset to golden data."
    )
    formats = imports.add_subparsers(dest="format", required=True, metavar="FORMAT")
    beir = formats.add_parser("beir", help="a BEIR folder: queries.jsonl and qrels/*.tsv")
    beir.add_argument("folder", type=path_argument, help="the folder")
    beir.add_argument(
        "--qrels", type=path_argument, metavar="FILE", help="judgements (default: qrels/test.tsv in the folder)"
    )
    trec = formats.add_parser("trec", help="TREC topics and qrels")
    trec.add_argument("topics", type=path_argument, help="file of <top> elements")
    trec.add_argument("qrels", type=path_argument, help="file of `query iteration document grade` lines")
    trec.add_argument(
        "--topic-ids",
        choices=("auto", "num", "ordinal"),
        default="auto",
        help="what the query ids of the qrels are: the topics' <num> or their place in the file (default: what fits)",
    )
    mlflow = formats.add_parser("mlflow", help="an evaluation dataset of MLflow")
    mlflow.add_argument("name", help="name of the dataset")
    for command in (beir, trec, mlflow):
        command.add_argument(
            "-o", "--out", type=path_argument, required=True, metavar="FILE", help="golden file to write"
        )
    exports = commands.add_parser("export", help="write golden data elsewhere", description="Golden data to MLflow.")
    to_mlflow = exports.add_subparsers(dest="format", required=True, metavar="FORMAT").add_parser(
        "mlflow", help="an evaluation dataset of MLflow"
    )
    to_mlflow.add_argument("file", type=path_argument, help="golden .jsonl file, or a folder of them")
    to_mlflow.add_argument("--name", required=True, help="name of the dataset")
    to_mlflow.add_argument("--force", action="store_true", help="replace the dataset if it exists")
    for command in (mlflow, to_mlflow):
        command.add_argument(
            "--tracking.uri",
            dest="uri",
            metavar="URI",
            help="MLflow on a SQL database; the one under ./mlruns when left out",
        )
    init = commands.add_parser("init", help="begin golden data", description="Sample chunks into cases to fill in.")
    init.add_argument(
        "--out", type=path_argument, default=Path("golden.jsonl"), metavar="FILE", help="default: golden.jsonl"
    )
    init.add_argument("--count", type=whole_number(1), default=40, metavar="N", help="in-scope cases (default: 40)")
    init.add_argument(
        "--out-of-scope", type=whole_number(0), default=10, metavar="N", help="cases out of scope (default: 10)"
    )
    init.add_argument("--seed", type=whole_number(0), default=0, help="of the choice (default: 0)")
    init.add_argument("--force", action="store_true", help="replace the file if it exists")
    init.add_argument("--config", type=path_argument, metavar="FILE", help="retriever settings as YAML")
    add_flags(init, RetrieverConfig)
    for command in (validate, beir, trec, mlflow, to_mlflow, init):
        add_logging_flags(command)
    return parser


def _validate(namespace: argparse.Namespace) -> list[str]:
    from evals.config.experiment import DatasetConfig
    from evals.golden.loading import load_golden

    golden = load_golden(DatasetConfig(path=namespace.file))
    checked, chunks, missing = "form checked; give --docs DIR to find the evidence too", None, ""
    if namespace.docs:
        chunks, missing = _resolve_in_pages(golden, namespace.docs, namespace.base_url)
        checked = f"every piece of evidence found in {len(chunks)} chunks"
    splits = Counter((case.split or "no split", case.in_scope) for case in golden.cases)
    types = Counter(case.query_type or "no type" for case in golden.cases)
    return [
        f"{namespace.file}: {len(golden.cases)} cases are valid ({checked})",
        *(
            f"  {split}: {splits[split, True]} in scope, {splits[split, False]} out of scope"
            for split in sorted({name for name, _ in splits})
        ),
        "  " + ", ".join(f"{name}: {count}" for name, count in types.most_common()),
        *(f"  {line}" for line in _human_verdicts(golden.cases, chunks)),
        *([f"  {missing}"] if missing else []),
    ]


def _human_verdicts(cases: "Sequence[Case]", chunks: "Sequence[Chunk] | None") -> list[str]:
    from evals.golden.case import FEWEST_LABELLED
    from evals.golden.evidence import unplaced_verdicts

    judged = [case.human_verdicts for case in cases if case.human_verdicts]
    if not judged:
        return []
    useful = sum(sum(verdicts.values()) for verdicts in judged)
    count = f"human verdicts: {sum(map(len, judged))} in {len(judged)} cases, {useful} of them useful"
    lines = [count + (f"; to correct a judge takes {FEWEST_LABELLED} cases" if len(judged) < FEWEST_LABELLED else "")]
    unplaced = [] if chunks is None else unplaced_verdicts(cases, chunks)
    if unplaced:
        case_id, chunk_id = unplaced[0]
        where = f"as {chunk_id!r} of case {case_id!r}: is the chunking another one?"
        lines.append(f"{len(unplaced)} of the verdicts are on chunks that these pages do not give, {where}")
    return lines


def _resolve_in_pages(golden: "GoldenSet", docs: Path, base_url: str) -> "tuple[list[Chunk], str]":
    """Return the chunks of the pages, and the relevant ones that the pages do not give."""
    from evals.errors import DatasetError
    from evals.golden.evidence import missing_chunks, resolve
    from evals.golden.source_pages import SourcePage
    from retrievers.embedding.tokens import count_tokens
    from retrievers.errors import IndexingError
    from retrievers.indexing.chunking import DEFAULT_MAX_TOKENS, chunk_page
    from retrievers.indexing.corpus import read_corpus

    corpus = read_corpus(docs, base_url)
    if corpus.faults:
        raise IndexingError("pages cannot be read:", corpus.faults)
    chunks = [chunk for page in corpus.pages for chunk in chunk_page(page, DEFAULT_MAX_TOKENS, count_tokens)]
    relevance = resolve(golden.cases, chunks, golden.places)
    faults = _misquoted(golden, {page.source_url: SourcePage(page) for page in corpus.pages})
    if faults:
        raise DatasetError(f"{len(faults)} quotes are not in their page word for word:", faults)
    return chunks, missing_chunks(relevance)


def _misquoted(golden: "GoldenSet", pages: Mapping[str, "SourcePage"]) -> list[str]:
    return [
        f"{golden.places[case.id]}: evidence.{number}: {evidence.source_url or 'no page'!r} does not hold "
        f"{evidence.quote[:60]!r}"
        for case in golden.cases
        for number, evidence in enumerate(case.evidence)
        if evidence.quote and not any(any(page.places(evidence.quote)) for page in _named_pages(evidence, pages))
    ]


def _named_pages(evidence: "Evidence", pages: Mapping[str, "SourcePage"]) -> "Collection[SourcePage]":
    return [pages[evidence.source_url]] if evidence.source_url else pages.values()


def _import(namespace: argparse.Namespace) -> list[str]:
    from evals.golden.importers import import_beir, import_trec

    check_writable(namespace.out)
    if namespace.format == "mlflow":
        return _import_mlflow(namespace)
    if namespace.format == "beir":
        imported = import_beir(namespace.folder, namespace.qrels)
    else:
        imported = import_trec(namespace.topics, namespace.qrels, namespace.topic_ids)
    rows = [case.model_dump(exclude_defaults=True) | {"in_scope": True} for case in imported.cases]
    write(namespace.out, _lines(rows))
    relevant = sum(len(case.relevant) for case in imported.cases)
    judged = sum(len(case.relevant_ids) for case in imported.cases)
    return [
        f"{namespace.out}: {len(imported.cases)} cases with {relevant} relevant documents, "
        f"{judged - relevant} judged and not relevant",
        *(f"  {note}" for note in imported.notes),
        "  relevant_ids must equal the chunk_id of your collection (see metadata.map in the experiment file)",
    ]


def _import_mlflow(namespace: argparse.Namespace) -> list[str]:
    from evals.golden.mlflow_records import rows_of
    from evals.tracking import read_dataset

    rows, skeletons = rows_of(read_dataset(namespace.name, namespace.uri))
    write(namespace.out, _lines(rows))
    lines = [f"{namespace.out}: {len(rows)} cases of MLflow's dataset {namespace.name!r}"]
    if skeletons:
        lines.append(
            f"  {skeletons} of them are skeletons, without evidence: add to each the passages that answer it (evidence "
            f"or relevant_ids), or in_scope: false; then: python -m evals.golden validate {namespace.out}"
        )
    return lines


def _export(namespace: argparse.Namespace) -> list[str]:
    from evals.config.experiment import DatasetConfig
    from evals.golden.loading import load_golden
    from evals.golden.mlflow_records import records_of
    from evals.tracking import write_dataset

    golden = load_golden(DatasetConfig(path=namespace.file))
    tags = {"retrieval_evals.fingerprint": golden.fingerprint}
    write_dataset(namespace.name, records_of(golden.cases), tags, namespace.uri, replaced=namespace.force)
    return [f"MLflow's dataset {namespace.name!r}: {len(golden.cases)} cases of {namespace.file}"]


def _init(namespace: argparse.Namespace) -> list[str]:
    from evals.errors import DatasetError
    from evals.golden.skeletons import skeletons

    check_writable(namespace.out)
    if namespace.out.exists() and not namespace.force:
        raise DatasetError(f"{namespace.out}: exists already; name another file with --out, or replace it with --force")
    env = environment(os.environ)
    layers = [environment_layer(env), *([file_layer(namespace.config, RetrieverConfig)] if namespace.config else [])]
    config = build(RetrieverConfig, [*layers, flag_layer(namespace, RetrieverConfig)])
    chunks = _listed(config, env)
    rows = skeletons(chunks, namespace.count, namespace.out_of_scope, namespace.seed)
    if not rows or not chunks:
        raise DatasetError(f"{_collection(config)} holds no chunk with text")
    write(namespace.out, _lines(rows))
    return [
        f"{namespace.out}: {len(rows)} skeleton cases out of {len(chunks)} chunks; write a query and an answer "
        f"into each, shorten the quote to what answers it, then: python -m evals.golden validate {namespace.out}"
    ]


def _listed(config: RetrieverConfig, env: Mapping[str, str]) -> "list[Chunk]":
    """Return all chunks of a collection, or of the one behind the user's own retriever."""
    from evals.errors import DatasetError
    from retrievers.retriever.opened import open_retriever
    from retrievers.store import describe, open_client
    from retrievers.store.stored_chunks import scroll

    if config.python is None:
        client = open_client(config.store, env)
        try:
            return scroll(client, config, info=describe(client, config))
        finally:
            client.close()
    with open_retriever(config, env=env) as retriever:
        if retriever.info is None:
            raise DatasetError(
                f"python: the chunks of {config.python!r} ({retriever.label}) cannot be listed; name the store and "
                "collection that it reads from (--store.path or --store.url, --collection), or let the factory return "
                "its QdrantVectorStore"
            )
        return retriever.chunks()


def _collection(config: RetrieverConfig) -> str:
    return f"collection {config.collection!r}" if config.python is None else f"python {config.python!r}"


def _lines(rows: Sequence[dict[str, Any]]) -> str:
    return "".join(json_text(row) + "\n" for row in rows)
