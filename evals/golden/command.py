"""`python -m evals.golden`: golden data checked, begun, imported, labelled by people, and written by a model."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from evals.config.judge import JudgeConfig
from evals.golden.prompts import DEFAULT
from retrievers.config import RetrieverConfig, Settings
from retrievers.config.layers import add_flags
from retrievers.terminal.command import Parser, add_logging_flags, path_argument, run, set_up_logging, whole_number

# Cosine from which on two queries count as nearly the same.
NEAR = 0.85
GOLDEN = Path("golden.jsonl")


class ModelSettings(Settings):
    """The chat model that writes and judges."""

    judge: JudgeConfig = Field(default_factory=lambda: JudgeConfig.model_validate({}), description="the chat model")


def main(arguments: Sequence[str] | None = None, prog: str = "python -m evals.golden") -> int:
    """Parse and run; return the exit code. Usage and errors call the command `prog`."""
    namespace = _parser(prog).parse_args(arguments)
    return run(lambda: _run(namespace))


def _run(namespace: argparse.Namespace) -> int:
    set_up_logging(verbose=namespace.verbose, log_file=namespace.log_file, quiet=namespace.quiet)
    # Each command imports what it needs alone: help and errors of usage come at once.
    match namespace.command:
        case "check":
            from evals.golden.check import check as command
        case "init":
            from evals.golden.beginning import init as command
        case "import":
            from evals.golden.beginning import import_cases as command
        case "label":
            from evals.golden.labelling import label as command
        case _:
            from evals.golden.writing import synthesize as command
    return command(namespace)


def _parser(prog: str) -> argparse.ArgumentParser:
    parser = Parser(prog=prog, description="Check golden queries, import, begin, label or have some written.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, about: str, description: str) -> Callable[..., Any]:
        """Add a subcommand with the flags that all have: pages or a collection, and logging."""
        own: Parser = commands.add_parser(name, help=about, description=description)
        add = own.add_argument
        add("--docs", type=path_argument, metavar="DIR", help="pages, in place of a collection")
        add("--base-url", default="/docs", help="what addresses of --docs begin with (default: /docs)")
        add(
            "--config",
            type=path_argument,
            metavar="FILE",
            help="experiment, also a packaged one, or retriever settings",
        )
        add_flags(own, RetrieverConfig)
        add_logging_flags(own)
        if name == "synthesize":
            add_flags(own, ModelSettings)
        if name in ("check", "init", "synthesize"):
            add("--near", type=_cosine, default=NEAR, metavar="COSINE", help=f"repeats are as alike (default: {NEAR})")
        if name in ("init", "label", "synthesize"):
            add("--seed", type=whole_number(0), default=0, help="of the choice and order (default: 0)")
        if name in ("init", "synthesize"):
            add(
                "-o",
                "--out",
                type=path_argument,
                default=GOLDEN,
                metavar="FILE",
                help=f"file to write (default: {GOLDEN})",
            )
            add("--force", action="store_true", help="replace the file if it exists")
        return add

    add = command(
        "check", "check golden data",
        "List every fault with its place, then what the data can prove, what they cover and what in them is doubtful. "
        "Where pages are named, or a collection, every piece of evidence must be found there.",
    )  # fmt: skip
    add("file", type=path_argument, help="golden data: a file or a folder")
    add("--report", type=path_argument, action="append", default=[], metavar="FILE", help="report of a run; repeatable")

    add = command("init", "begin golden data", "Sample chunks into cases to fill in, or queries that were traced.")
    add("--count", type=whole_number(1), default=40, metavar="N", help="in-scope cases (default: 40)")
    add("--out-of-scope", type=whole_number(0), default=10, metavar="N", help="cases out of scope (default: 10)")
    add("--traces", metavar="EXPERIMENT", help="MLflow's experiment whose traced queries to begin with")
    add("--tracking.uri", dest="uri", metavar="URI", help="MLflow's store (default: ./mlruns)")

    add = command(
        "import", "import queries and labels",
        "Tables of other column names, ragas' testsets, BEIR folders and datasets of the hub as golden data; passages "
        "without a page are looked for in --docs or the collection.",
    )  # fmt: skip
    add("source", nargs="+", metavar="SOURCE", help="file, folder, or hub id with --revision")
    add("-o", "--out", type=path_argument, required=True, metavar="FILE", help="golden file to write")
    add("--column", action="append", default=[], metavar="FIELD=COLUMN", help="such as query=question; repeatable")
    add("--revision", metavar="COMMIT", help="commit hash; required with a hub id")
    add("--split", help="split of a dataset of the hub (default: train), or judgements of a BEIR folder (test)")

    add = command(
        "label", "let people judge chunks",
        "Pool the best chunks of several systems into a page (HTML) or a spreadsheet (CSV) for people to judge; "
        "--labels reads what they saved, and --write takes it into the golden file.",
    )  # fmt: skip
    add("file", type=path_argument, help="golden .jsonl file; its cases may lack evidence")
    add(
        "--out", type=path_argument, metavar="FILE", help="page (.html) or spreadsheet (.csv); default: FILE.label.html"
    )
    add("--pool", type=path_argument, nargs="+", default=[], metavar="FILE", help="retrievals (--save-retrieval)")
    add("--depth", type=whole_number(1), default=10, metavar="K", help="best chunks of each system (default: 10)")
    add("--split", help="only the cases of this split")
    add("--report", type=path_argument, metavar="REPORT",
        help="ask for what this report returned that nobody judged, or that its judge and the labels differ on; with "
        "--labels, its judge is compared with them")  # fmt: skip
    add("--labels", type=path_argument, nargs="+", default=[], metavar="FILE", help="saved labels, .jsonl or .csv")
    add("--annotator", metavar="NAME", help="name beside each label, where a file or page has none")
    add("--write", action="store_true", help="write the labels into the golden file")

    about = "Have a chat model (--judge.model) write queries, answers and quotes to passages, and check them."
    add = command("synthesize", "have golden data written", about)
    add("--per-type", default=DEFAULT, metavar="TYPE=N,…", help=f"queries of each type (default: {DEFAULT})")
    add("--plan", action="store_true", help="count calls, tokens and price, and stop")
    return parser


def _cosine(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"expected a cosine above 0, of at most 1, got {text!r}")
    return value
