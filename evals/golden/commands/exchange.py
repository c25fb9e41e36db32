"""`golden import` and `golden export`: golden data from and to other formats."""

import argparse

from evals.config.files import check_writable, write
from evals.golden.commands import Subcommands, next_of_unlabelled, say
from evals.golden.commands.export_files import add_files
from evals.golden.commands.import_tables import add_tables
from evals.golden.commands.import_traces import add_traces
from evals.golden.json_lines import json_lines
from retrievers.terminal.command import add_logging_flags, path_argument

# Cases of one query that are named.
SHOWN = 5


def add_import(commands: Subcommands) -> None:
    """Add the subcommand to a parser."""
    imports = commands.add_parser(
        "import", help="import queries and labels", description="Other formats to golden data."
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
    _add_tracking(mlflow)
    for command in (beir, trec, mlflow):
        command.add_argument(
            "-o", "--out", type=path_argument, required=True, metavar="FILE", help="golden file to write"
        )
        add_logging_flags(command)
        command.set_defaults(run=lambda namespace: say(namespace, _import(namespace)))
    add_tables(formats)
    add_traces(formats)


def add_export(commands: Subcommands) -> None:
    """Add the subcommand to a parser."""
    exports = commands.add_parser(
        "export", help="write golden data elsewhere", description="Golden data to other formats."
    )
    formats = exports.add_subparsers(dest="format", required=True, metavar="FORMAT")
    to_mlflow = formats.add_parser("mlflow", help="an evaluation dataset of MLflow")
    to_mlflow.add_argument("file", type=path_argument, help="golden .jsonl file, or a folder of them")
    to_mlflow.add_argument("--name", required=True, help="name of the dataset")
    to_mlflow.add_argument("--force", action="store_true", help="replace the dataset if it exists")
    _add_tracking(to_mlflow)
    add_logging_flags(to_mlflow)
    to_mlflow.set_defaults(run=lambda namespace: say(namespace, _export(namespace)))
    add_files(formats)


def _add_tracking(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--tracking.uri",
        dest="uri",
        metavar="URI",
        help="MLflow on a SQL database; the one under ./mlruns when left out",
    )


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
    write(namespace.out, json_lines(rows))
    relevant = sum(len(case.relevant) for case in imported.cases)
    judged = sum(len(case.relevant_ids) for case in imported.cases)
    return [
        f"{namespace.out}: {len(imported.cases)} cases with {relevant} relevant documents, "
        f"{judged - relevant} judged and not relevant",
        *(f"  {note}" for note in imported.notes),
        "  relevant_ids must equal the chunk_id or the source_document_id of your collection (see metadata.map)",
    ]


def _import_mlflow(namespace: argparse.Namespace) -> list[str]:
    from evals.golden.mlflow_records import rows_of
    from evals.tracking import read_dataset

    rows, skeletons = rows_of(read_dataset(namespace.name, namespace.uri))
    write(namespace.out, json_lines(rows))
    lines = [f"{namespace.out}: {len(rows)} cases of MLflow's dataset {namespace.name!r}"]
    if skeletons:
        lines.append(next_of_unlabelled(skeletons, namespace.out))
    return lines


def _export(namespace: argparse.Namespace) -> list[str]:
    from evals.config.experiment import DatasetConfig
    from evals.golden.loading import load_golden
    from evals.golden.mlflow_records import CASE, records_of, repeating
    from evals.tracking import write_dataset

    golden = load_golden(DatasetConfig(path=namespace.file))
    tags = {"retrieval_evals.fingerprint": golden.fingerprint}
    write_dataset(namespace.name, records_of(golden.cases), tags, namespace.uri, replaced=namespace.force)
    lines = [f"MLflow's dataset {namespace.name!r}: {len(golden.cases)} cases of {namespace.file}"]
    if repeated := repeating(golden.cases):
        lines.append(
            "  MLflow keeps one record for equal inputs, so these cases, whose query an earlier one asks, have a "
            f"second input, {CASE}: {', '.join(case.id for case in repeated[:SHOWN])}"
            f"{'' if len(repeated) <= SHOWN else ', …'}; a predict_fn takes it, too: def predict(query, {CASE}=None)"
        )
    return lines
