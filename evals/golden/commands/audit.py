"""`golden audit`: what golden data can prove, what they cover, and what in them is doubtful."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from evals.config.files import check_writable, write
from evals.golden.commands import NEAR, Subcommands, add_chunk_flags, cosine_argument, named_chunks, named_settings, say
from retrievers.config.files import read_text
from retrievers.config.layers import environment
from retrievers.terminal.command import add_logging_flags, path_argument, print_out, whole_number
from retrievers.text.printable import json_text

if TYPE_CHECKING:
    from evals.golden.audit.section import AuditSection
    from evals.report.model import Report


def add_audit(commands: Subcommands) -> None:
    """Add the subcommand to a parser."""
    command = commands.add_parser(
        "audit", help="measure golden data", description="Say what golden data can prove and what in them is doubtful."
    )
    command.add_argument("file", type=path_argument, help="golden .jsonl file, or a folder of them")
    command.add_argument(
        "--report", type=path_argument, action="append", default=[], metavar="FILE", help="report of a run; repeatable"
    )
    command.add_argument(
        "--near", type=cosine_argument, default=NEAR, metavar="COSINE", help=f"repeats are as alike (default: {NEAR})"
    )
    command.add_argument("--seed", type=whole_number(0), default=0, help="of the chunks compared with (default: 0)")
    command.add_argument("--json", action="store_true", help="print everything as JSON")
    command.add_argument("--html", type=path_argument, metavar="FILE", help="write a page as well")
    add_chunk_flags(command)
    add_logging_flags(command)
    command.set_defaults(run=_audit)


def _audit(namespace: argparse.Namespace) -> int:
    from evals.config.experiment import DatasetConfig
    from evals.config.telemetry import silence
    from evals.golden.audit.auditing import audit
    from evals.golden.audit.page import audit_page
    from evals.golden.loading import load_golden
    from evals.golden.synthesis.passages import embedder
    from retrievers.embedding.models import make_embeddings

    silence(hub=False)
    check_writable(namespace.html)
    golden = load_golden(DatasetConfig(path=namespace.file))
    reports = {str(file): _report(file) for file in namespace.report}
    env = environment(os.environ)
    config, is_named = named_settings(namespace, env)
    chunks = named_chunks(namespace, config, env) if is_named else None
    embed = embedder(make_embeddings(config.embedding, env))
    sections = audit(golden, chunks, reports, embed, near=namespace.near, seed=namespace.seed)
    if namespace.html:
        write(namespace.html, audit_page(golden.name, sections))
    if namespace.json:
        parts = {part.name: {**part.figures, "doubtful": part.doubtful, "lines": part.lines} for part in sections}
        print_out(json_text({"golden": golden.name, "fingerprint": golden.fingerprint, **parts}, indent=2))
        return 0
    page = [f"Page: {namespace.html}"] if namespace.html else []
    return say(namespace, [str(namespace.file), *(line for part in sections for line in _lines(part)), *page])


def _lines(part: "AuditSection") -> list[str]:
    return [f"{'! ' if part.doubtful else ''}{part.title}", *(f"  {line}" for line in part.lines)]


def _report(file: Path) -> "Report":
    from evals.errors import ReportError
    from evals.report.parsing import MOST_BYTES, parse

    return parse(read_text(file, "a report of evals.run", MOST_BYTES, ReportError), str(file))
