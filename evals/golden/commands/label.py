"""`golden label`: people judge pooled chunks on a local page; `--write` takes their labels into the golden file."""

import argparse
import getpass
import os
import secrets
import socket
import sys
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from evals.config.files import check_writable
from evals.errors import DatasetError
from evals.golden.commands import Subcommands, say
from retrievers.config import RetrieverConfig
from retrievers.config.layers import add_flags
from retrievers.terminal.browser import has_display
from retrievers.terminal.command import add_logging_flags, path_argument, print_out, whole_number

if TYPE_CHECKING:
    from evals.golden.labelling.server import Work
    from evals.report.model import Report


def add_label(commands: Subcommands) -> None:
    """Add the subcommand to a parser."""
    label = commands.add_parser(
        "label",
        help="let people judge chunks, on a local page",
        description="Pool the best chunks of several systems, and let people judge each for its query. Every label is "
        "on the disk before the next is taken; --write takes them into the golden file.",
    )
    label.add_argument("file", type=path_argument, help="golden .jsonl file; its cases may lack evidence")
    label.add_argument(
        "--pool", type=path_argument, nargs="+", default=[], metavar="FILE",
        help="retrievals that evals.run --save-retrieval has written",
    )  # fmt: skip
    label.add_argument("--config", type=path_argument, metavar="FILE", help="a retriever that is asked now, as YAML")
    label.add_argument(
        "--depth", type=whole_number(1), default=10, metavar="K", help="best chunks of each system (default: 10)"
    )
    label.add_argument("--split", help="only the cases of this split")
    label.add_argument(
        "--labels", type=path_argument, metavar="FILE", help="file of the labels (default: FILE.labels.jsonl beside it)"
    )
    label.add_argument("--annotator", metavar="NAME", help="name beside each label (default: the user's)")
    label.add_argument(
        "--judge",
        type=path_argument,
        metavar="REPORT",
        help="judged report to compare the labels with",
    )
    label.add_argument(
        "--holes", type=path_argument, metavar="REPORT",
        help="only what can change this report: unjudged chunks, and those that its judge and the labels differ on",
    )  # fmt: skip
    label.add_argument(
        "--verdicts", action="store_true",
        help="the judge's question alone: queries in the order in which it judges them, so that the first are a random "
        "sample; --write then takes human_verdicts, and no evidence",
    )  # fmt: skip
    label.add_argument(
        "--seed", type=whole_number(0), default=0, help="of the order, with --verdicts the run's seed (default: 0)"
    )
    label.add_argument("--port", type=whole_number(0), default=0, help="port of the page (default: any that is free)")
    label.add_argument("--no-browser", action="store_true", help="open no browser")
    label.add_argument("--write", action="store_true", help="write the labels into the golden file, and end")
    add_flags(label, RetrieverConfig)
    add_logging_flags(label)
    label.set_defaults(run=lambda namespace: say(namespace, _label(namespace)))


def _label(namespace: argparse.Namespace) -> list[str]:
    from evals.golden.commands.label_merging import merge
    from evals.golden.labelling.labels import LabelFile

    # Labels of evidence are another kind: both in one file would make some queries' labels say more than others'.
    kind = "verdicts" if namespace.verdicts else "labels"
    file = namespace.labels or namespace.file.with_name(f"{namespace.file.name}.{kind}.jsonl")
    if namespace.verdicts and namespace.holes:
        raise DatasetError("--verdicts takes queries in random order, and --holes by what they decide; leave one out")
    if not namespace.file.is_file():
        raise DatasetError(f"{namespace.file}: expected a golden .jsonl file; begin one with: golden init, or import")
    judge = _verdicts(namespace.judge or namespace.holes, needed=bool(namespace.judge))
    if namespace.write:
        return merge(namespace.file, LabelFile(file), judge, evidence=not namespace.verdicts)
    work = _work(namespace, file, judge)
    return _serve(namespace, work) if work.pooled else ["No hole is left: all that can change the report was judged"]


def _work(namespace: argparse.Namespace, file: Path, judge: Mapping[tuple[str, str], int]) -> "Work":
    """Return the pool and what belongs to it; of the holes of a report it may be empty."""
    from evals.config.experiment import DatasetConfig
    from evals.golden.commands.label_holes import (
        changed_since,
        deciding_depth,
        disagreements,
        holes,
        known_of,
        most_decisive,
    )
    from evals.golden.commands.pooled_systems import check_one_collection, systems
    from evals.golden.labelling.labels import LabelFile
    from evals.golden.labelling.pool import pool
    from evals.golden.labelling.server import Work
    from evals.golden.loading import load_golden
    from evals.sampling.order import judging_order

    check_writable(file)
    cases = load_golden(DatasetConfig(path=namespace.file, split=namespace.split)).cases
    report = _report(namespace.holes)
    # By all queries, as a run has it: that of a part of them may be another one.
    order = judging_order(cases, namespace.seed)
    if report:
        # Of a query out of scope nothing is relevant: its labels change no figure.
        of_report = {row.id for row in report.queries if row.in_scope}
        cases = tuple(case for case in cases if case.id in of_report)
    if namespace.verdicts:
        cases = tuple(case for case in cases if case.in_scope and (case.reference_answer or "").strip())
        if not cases:
            raise DatasetError(
                f"--verdicts: expected in-scope cases with a reference_answer, found none in {namespace.file}"
            )
    chosen = list(
        systems(namespace, cases, lambda settings: deciding_depth(report, settings) if report else namespace.depth)
    )
    if report and not chosen:
        raise DatasetError(f"none of these retrievals is that of a cell of {namespace.holes} that may be best")
    check_one_collection(chosen)
    rankings = [system.chunks for system in chosen]
    pooled = pool(cases, rankings, namespace.seed)
    if not pooled:
        raise DatasetError("the pool is empty: none of its systems found a chunk with text for a query of this file")
    if namespace.verdicts:
        pooled = sorted(pooled, key=lambda entry: order.index(entry.case.id))
    if report:
        relevance = known_of(cases, rankings)
        print_out(changed_since(report, relevance))
        pooled = most_decisive(pooled, holes(rankings, relevance, disagreements(report, cases)))
    labels = LabelFile(file)
    labels.labels()  # a broken file is an error before the page opens
    depth = max(system.depth for system in chosen)
    return Work(pooled=pooled, labels=labels, names=tuple(system.name for system in chosen), depth=depth, judge=judge)


def _serve(namespace: argparse.Namespace, work: "Work") -> list[str]:
    import uvicorn

    from evals.golden.labelling.server import make_app

    token, file = secrets.token_urlsafe(16), work.labels.path
    with _listening(namespace.port) as listener:
        port = listener.getsockname()[1]
        address = f"http://127.0.0.1:{port}/?token={token}&annotator={_annotator(namespace.annotator)}"
        count = sum(len(entry.chunks) for entry in work.pooled)
        print_out(
            f"{count} chunks of {len(work.pooled)} queries to judge, the best {work.depth} of {', '.join(work.names)}\n"
            f"Page: {address} (Ctrl-C ends it; labels are in {file})"
        )
        if not namespace.no_browser and has_display(os.environ, sys.platform):
            webbrowser.open(address)
        server = uvicorn.Server(uvicorn.Config(make_app(work, token), log_level="error", timeout_graceful_shutdown=2))
        try:
            server.run(sockets=[listener])
        except KeyboardInterrupt:  # uvicorn raises it again after a clean end
            pass
    flags = "--verdicts --write" if namespace.verdicts else "--write"
    return _summary(work, f"python -m evals.golden label {namespace.file} {flags}")


def _report(file: Path | None) -> "Report | None":
    if file is None:
        return None
    from evals.tracking.find import open_run

    return open_run(str(file), None, "").report


def _verdicts(file: Path | None, *, needed: bool) -> dict[tuple[str, str], int]:
    """Return a judge's verdicts in a report, by case and chunk id."""
    report = _report(file)
    if report is None:
        return {}
    verdicts = {
        (row.id, hit.chunk_id): hit.verdict
        for row in report.queries
        for hit in row.retrieved
        if hit.verdict is not None
    }
    if not verdicts and needed:
        raise DatasetError(f"--judge {file}: expected a judged report, found no verdict in it")
    return verdicts


def _summary(work: "Work", next_command: str) -> list[str]:
    from evals.golden.labelling.annotator_agreement import agreement
    from evals.golden.labelling.labels import standing

    labels, file = standing(work.labels.labels()), work.labels.path
    people = ", ".join(sorted({label.annotator for label in labels.values()}))
    if not labels:
        return [f"{file}: no label yet"]
    return [f"{file}: {len(labels)} labels by {people}", *agreement(labels, work.judge), f"Next: {next_command}"]


def _listening(port: int) -> socket.socket:
    try:
        return socket.create_server(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        raise DatasetError(f"port {port} cannot be used ({error}); name another one with --port") from error


def _annotator(given: str | None) -> str:
    try:
        return quote(given or getpass.getuser())
    except (OSError, KeyError):  # a user without a name; the page asks for one
        return ""
