"""`python -m evals.golden`: golden data checked, begun, imported, labelled by people, and written by a model."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from pydantic import Field

from evals.config.judge import JudgeConfig
from retrievers.config import RetrieverConfig, Settings
from retrievers.config.layers import add_flags
from retrievers.terminal.command import Parser, add_logging_flags, path_argument, run, set_up_logging, whole_number

# Cosine from which on two queries count as nearly the same.
NEAR = 0.85
GOLDEN = Path("golden.jsonl")
Subcommands: TypeAlias = "argparse._SubParsersAction[Parser]"


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
            from evals.golden.skeletons import init as command
        case "import":
            from evals.golden.importing import import_cases as command
        case "label":
            from evals.golden.labelling import label as command
        case _:
            from evals.golden.writing import synthesize as command
    return command(namespace)


def _parser(prog: str) -> argparse.ArgumentParser:
    parser = Parser(prog=prog, description="Check golden queries, import, begin, label or have some written.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for add in (_add_check, _add_init, _add_import, _add_label, _add_synthesize):
        add(commands)
    return parser


def _add_check(commands: Subcommands) -> None:
    command = _add(
        commands, "check", "check golden data",
        "List every fault with its place, then what the data can prove, what they cover and what in them is doubtful. "
        "Where pages are named, or a collection, every piece of evidence must be found there.",
    )  # fmt: skip
    command.add_argument("file", type=path_argument, help="golden data: a file or a folder")
    command.add_argument(
        "--report", type=path_argument, action="append", default=[], metavar="FILE", help="report of a run; repeatable"
    )
    _add_near(command)


def _add_init(commands: Subcommands) -> None:
    command = _add(
        commands, "init", "begin golden data",
        "Sample chunks into cases to fill in, or queries that a retriever was asked.",
    )  # fmt: skip
    _add_out(command, GOLDEN)
    command.add_argument("--count", type=whole_number(1), default=40, metavar="N", help="in-scope cases (default: 40)")
    command.add_argument(
        "--out-of-scope", type=whole_number(0), default=10, metavar="N", help="cases out of scope (default: 10)"
    )
    command.add_argument("--seed", type=whole_number(0), default=0, help="of the choice (default: 0)")
    command.add_argument("--force", action="store_true", help="replace the file if it exists")
    command.add_argument(
        "--traces", metavar="EXPERIMENT", help="MLflow's experiment whose traced queries to begin with"
    )
    command.add_argument("--tracking.uri", dest="uri", metavar="URI", help="MLflow's store (default: ./mlruns)")
    _add_near(command)


def _add_import(commands: Subcommands) -> None:
    command = _add(
        commands, "import", "import queries and labels",
        "Tables of other column names, ragas' testsets, BEIR folders and datasets of the hub as golden data; passages "
        "without a page are looked for in --docs or the collection.",
    )  # fmt: skip
    command.add_argument("source", nargs="+", metavar="SOURCE", help="file, folder, or hub id with --revision")
    _add_out(command, None)
    command.add_argument(
        "--column", action="append", default=[], metavar="FIELD=COLUMN",
        help="the column of a field, such as query=question; repeatable. contexts=… are passages",
    )  # fmt: skip
    command.add_argument(
        "--qrels", type=path_argument, metavar="FILE", help="judgements of a BEIR folder (default: qrels/test.tsv)"
    )
    command.add_argument("--revision", metavar="COMMIT", help="commit hash; required with a hub id")
    command.add_argument("--split", help="split of a dataset of the hub (default: train)")


def _add_label(commands: Subcommands) -> None:
    command = _add(
        commands, "label", "let people judge chunks",
        "Pool the best chunks of several systems into a page (HTML) or a spreadsheet (CSV) for people to judge; "
        "--labels reads what they saved, and --write takes it into the golden file.",
    )  # fmt: skip
    command.add_argument("file", type=path_argument, help="golden .jsonl file; its cases may lack evidence")
    command.add_argument(
        "--out", type=path_argument, metavar="FILE", help="page (.html) or spreadsheet (.csv); default: FILE.label.html"
    )
    command.add_argument(
        "--pool", type=path_argument, nargs="+", default=[], metavar="FILE",
        help="retrievals that evals.run --save-retrieval has written",
    )  # fmt: skip
    command.add_argument(
        "--depth", type=whole_number(1), default=10, metavar="K", help="best chunks of each system (default: 10)"
    )
    command.add_argument("--split", help="only the cases of this split")
    command.add_argument("--seed", type=whole_number(0), default=0, help="of the order, that of the runs (default: 0)")
    command.add_argument(
        "--report", type=path_argument, metavar="REPORT",
        help="ask for what this report returned that nobody judged, or that its judge and the labels differ on; with "
        "--labels, its judge is compared with them",
    )  # fmt: skip
    command.add_argument(
        "--labels", type=path_argument, nargs="+", default=[], metavar="FILE", help="saved labels, .jsonl or .csv"
    )
    command.add_argument("--annotator", metavar="NAME", help="name beside each label, where a file or page has none")
    command.add_argument("--write", action="store_true", help="write the labels into the golden file")


def _add_synthesize(commands: Subcommands) -> None:
    from evals.golden.prompts import DEFAULT

    command = _add(
        commands, "synthesize", "have golden data written",
        "Have a chat model (--judge.model) write queries, answers and quotes to passages, and check them.",
    )  # fmt: skip
    command.add_argument(
        "--per-type", default=DEFAULT, metavar="TYPE=N,…", help=f"queries of each type (default: {DEFAULT})"
    )
    _add_near(command)
    _add_out(command, GOLDEN)
    command.add_argument("--seed", type=whole_number(0), default=0, help="of the choice of passages (default: 0)")
    command.add_argument("--force", action="store_true", help="replace the file if it exists")
    command.add_argument("--plan", action="store_true", help="count calls, tokens and price, and stop")
    add_flags(command, ModelSettings)


def _add(commands: Subcommands, name: str, about: str, description: str) -> Parser:
    """Add a subcommand with the flags that all have: pages or a collection, and logging."""
    command: Parser = commands.add_parser(name, help=about, description=description)
    command.add_argument("--docs", type=path_argument, metavar="DIR", help="pages, in place of a collection")
    command.add_argument("--base-url", default="/docs", help="what addresses of --docs begin with (default: /docs)")
    command.add_argument(
        "--config",
        type=path_argument,
        metavar="FILE",
        help="experiment, also a packaged one by name, or retriever settings",
    )
    add_flags(command, RetrieverConfig)
    add_logging_flags(command)
    return command


def _add_near(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--near", type=_cosine, default=NEAR, metavar="COSINE", help=f"repeats are as alike (default: {NEAR})"
    )


def _add_out(command: argparse.ArgumentParser, default: Path | None) -> None:
    known = f" (default: {default})" if default else ""
    command.add_argument(
        "-o", "--out", type=path_argument, default=default, required=default is None, metavar="FILE",
        help=f"golden file to write{known}",
    )  # fmt: skip


def _cosine(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"expected a cosine above 0, of at most 1, got {text!r}")
    return value
