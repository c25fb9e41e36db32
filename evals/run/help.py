"""`--help` with the flags that people use, and `--help-all` with every setting."""

import argparse
from collections.abc import Sequence
from typing import Any

USUAL = (
    "--config", "--dataset.path", "--dataset.split", "--limit", "--retriever.mode", "--retriever.top-k",
    "--retriever.threshold", "--retriever.rerank", "--metrics", "--judge.model", "--sweep.mode", "--sweep.top-k",
    "--sweep.threshold", "--output", "--html", "--export", "--plan", "--no-gate", "--print-config", "--verbose",
    "--help-all",
)  # fmt: skip


class ShortHelp(argparse.Action):
    """Print the flags of USUAL and stop."""

    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any) -> None:
        super().__init__(option_strings, dest=argparse.SUPPRESS, default=argparse.SUPPRESS, nargs=0, **options)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Hide the other flags, which is safe as the command ends here."""
        for action in parser._actions:
            if not set(action.option_strings) & set(USUAL):
                action.help = argparse.SUPPRESS
        parser.print_help()
        parser.exit()


def add_help(command: argparse.ArgumentParser) -> None:
    """Add both flags to a parser without any."""
    command.add_argument("-h", "--help", action=ShortHelp, help="show the flags that people use, and stop")
    command.add_argument("--help-all", action="help", help="show every flag, one for each setting, and stop")
