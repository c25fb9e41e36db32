"""`python -m evals.golden`: check golden data, begin or import them, let people label them, or a model write them."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from evals.config.judge import ModelSettings
from retrievers.config import RetrieverConfig
from retrievers.config.files import user_path
from retrievers.config.layers import add_flags
from retrievers.terminal.command import Parser, add_logging_flags, run, set_up_logging, whole_number

GOLDEN = Path("golden.jsonl")
# Queries of each type that `synthesize` writes.
PER_TYPE = (
    "factual=15,procedural=10,conceptual=10,comparison=8,colloquial=8,keyword=5,misspelt=4,near_domain=12,general=4"
)


def main(arguments: Sequence[str] | None = None, prog: str = "python -m evals.golden") -> int:
    """Parse and run; return the exit code. Usage and errors call the command `prog`."""
    return run(_run, _parser(prog).parse_args(arguments))


def _run(namespace: argparse.Namespace) -> int:
    set_up_logging(verbose=namespace.verbose, quiet=namespace.quiet)
    # Each command imports only what it needs, so that help and usage errors come at once.
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

    def command(name: str, about: str, description: str, *, makes_file: bool = False) -> Callable[..., Any]:
        """Add a subcommand with the flags that all share: pages or a collection, and logging."""
        subparser: Parser = commands.add_parser(name, help=about, description=description)
        add = subparser.add_argument
        add("--docs", type=user_path, metavar="DIR", help="pages, in place of a collection")
        add("--base-url", default="/docs", help="what addresses of --docs begin with (default: /docs)")
        described = "experiment, also a packaged one, or retriever settings"
        add("--config", type=user_path, metavar="FILE", help=described)
        add_flags(subparser, RetrieverConfig)
        add_logging_flags(subparser)
        if makes_file:
            described = f"file to write (default: {GOLDEN})"
            add("-o", "--out", type=user_path, default=GOLDEN, metavar="FILE", help=described)
        if makes_file or name == "label":
            add("--force", action="store_true", help="replace the file if it exists")
        if name in ("init", "label", "synthesize"):
            add("--seed", type=whole_number(0), default=0, help="of the choice and order (default: 0)")
        return add

    about = (
        "List every fault with its place, then what the data can prove, what they cover and what in them is doubtful. "
        "Where pages are named, or a collection, every piece of evidence must be found there."
    )
    add = command("check", "check golden data", about)
    add("file", type=user_path, metavar="FILE", help="golden data: a file or a folder")
    add("--report", type=user_path, action="append", default=[], metavar="FILE", help="report of a run; repeatable")

    add = command("init", "begin golden data", "Sample chunks into cases to fill in.", makes_file=True)
    add("--count", type=whole_number(1), default=40, metavar="N", help="in-scope cases (default: 40)")
    add("--out-of-scope", type=whole_number(0), default=10, metavar="N", help="cases out of scope (default: 10)")

    about = (
        "Tables of other column names, ragas' testsets, BEIR folders and datasets of the hub as golden data. A run and "
        "golden check look for passages without a page in all chunks."
    )
    add = command("import", "import queries and labels", about, makes_file=True)
    add("source", metavar="SOURCE", help="file, folder, or hub id with --revision")
    add("--column", action="append", default=[], metavar="FIELD=COLUMN", help="such as query=question; repeatable")
    add("--revision", metavar="COMMIT", help="commit hash; required with a hub id")
    add("--split", help="only this split; default: all, of the hub train, of a BEIR folder test")

    about = (
        "Pool the best chunks of several systems into a page (HTML) or a spreadsheet (CSV) for people to judge; "
        "--labels reads what they saved, and --write takes it into the golden file."
    )
    add = command("label", "let people judge chunks", about)
    add("file", type=user_path, metavar="FILE", help="golden .jsonl file; its cases may lack evidence")
    described = "page (.html) or spreadsheet (.csv); default: FILE.label.html"
    add("--out", type=user_path, metavar="FILE", help=described)
    add("--pool", type=user_path, nargs="+", default=[], metavar="FILE", help="retrievals (--save-retrieval)")
    described = "ask for what this run returned and nobody judged; with --labels: compare its judge with people"
    add("--report", type=user_path, metavar="REPORT", help=described)
    add("--depth", type=whole_number(1), default=10, metavar="K", help="best chunks of each system (default: 10)")
    add("--split", help="only the cases of this split")
    add("--labels", type=user_path, nargs="+", default=[], metavar="FILE", help="saved labels, .jsonl or .csv")
    add("--annotator", metavar="NAME", help="name beside each label, where a file has none (default: the file's)")
    add("--write", action="store_true", help="write the labels into the golden file")

    add = command(
        "synthesize", "have golden data written",
        "Have a chat model (--judge.model) write queries, answers and quotes to passages, and check them.",
        makes_file=True,
    )  # fmt: skip
    add_flags(commands.choices["synthesize"], ModelSettings)
    add("--per-type", default=PER_TYPE, metavar="TYPE=N,…", help=f"queries of each type (default: {PER_TYPE})")
    add("--out-of-scope", dest="per_type", type=lambda text: f"near_domain={whole_number(1)(text)}", metavar="N",
        help="N queries that the documents do not answer, and no others")  # fmt: skip
    add("--plan", action="store_true", help="count calls, tokens and price, and stop")
    return parser
