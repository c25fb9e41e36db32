"""Arguments of `python -m retrievers`."""

import argparse

from retrievers.config import IndexSettings, RetrieverConfig, page_base
from retrievers.config.layers import add_flags
from retrievers.terminal.command import Parser, add_logging_flags, path_argument


def parser(prog: str) -> argparse.ArgumentParser:
    """Return the parser of the commands, called `prog` in its messages."""
    arguments = Parser(prog=prog, description="Index pages into Qdrant, search them, look at a collection, audit it.")
    commands = arguments.add_subparsers(dest="command", required=True, metavar="COMMAND")
    search = commands.add_parser("search", help="search a collection", description="Search a collection.")
    search.add_argument("query", help="what to look for")
    add_flags(search, IndexSettings)
    search.add_argument("--json", action="store_true", help="print the whole session as JSON")
    index = commands.add_parser(
        "index", help="index a folder of pages", description="Index Markdown, HTML, text and PDF."
    )
    index.add_argument(
        "folder",
        type=path_argument,
        metavar="SOURCE",
        help="folder of .md, .mdx, .html, .txt and .pdf files; or a dataset: a .jsonl, .csv, .tsv or .parquet file, a "
        "folder of them (BEIR's too), a saved Hugging Face dataset, or hub:OWNER/NAME",
    )
    rows = index.add_argument_group("of a dataset")
    for part in ("text", "title", "url", "id"):
        rows.add_argument(f"--{part}-column", metavar="NAME", help=f"column of a document's {part}")
    for part, meaning in (("revision", "commit or tag"), ("subset", "configuration"), ("split", "split (train)")):
        rows.add_argument(f"--{part}", metavar="NAME", help=f"{meaning} of a Hugging Face dataset")
    index.add_argument(
        "--base-url", type=_base, default="/docs", help="what page addresses begin with (default: /docs)"
    )
    add_flags(index, IndexSettings)
    index.add_argument(
        "--write",
        type=path_argument,
        metavar="FILE",
        help="write an experiment on it, for evals.run --config",
    )
    index.add_argument("--skip-broken", action="store_true", help="index the other pages when some are broken")
    index.add_argument("--replace", action="store_true", help="allow more than half of the stored chunks to be removed")
    inspect = commands.add_parser(
        "inspect", help="look at a collection", description="Show a collection and propose a map."
    )
    doctor = commands.add_parser(
        "doctor",
        help="audit a collection before it is tuned",
        description="Find what loses recall or breaks a run in a collection, with the remedy. It writes nothing. "
        "Exit code 1: there are errors.",
    )
    doctor.add_argument("--json", action="store_true", help="print the findings as JSON")
    inspect.add_argument(
        "--write", type=path_argument, metavar="FILE", help="write an experiment on it, with the proposed setting"
    )
    nothing = "print nothing but errors"
    result_alone = "print the result and errors alone: no progress, no warnings of the log"
    quiets = (
        (search, result_alone), (index, nothing), (inspect, result_alone), (doctor, result_alone),
    )  # fmt: skip
    for command, quiet in quiets:
        command.add_argument("--config", type=path_argument, metavar="FILE", help="retriever settings as YAML")
        add_logging_flags(command, quiet=quiet)
        add_flags(command, RetrieverConfig)
    return arguments


def _base(text: str) -> str:
    try:
        return page_base(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
