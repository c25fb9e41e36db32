"""`python -m evals.golden`: check, import and create golden queries."""

import argparse
from collections.abc import Sequence

from evals.golden.commands.audit import add_audit
from evals.golden.commands.begin import add_init
from evals.golden.commands.importing import add_import
from evals.golden.commands.label import add_label
from evals.golden.commands.synthesize import add_synthesize
from evals.golden.commands.validate import add_validate
from retrievers.terminal.command import Parser, run, set_up_logging


def main(arguments: Sequence[str] | None = None, prog: str = "python -m evals.golden") -> int:
    """Parse and run; return the exit code. Usage and errors call the command `prog`."""
    namespace = _parser(prog).parse_args(arguments)
    return run(lambda: _run(namespace))


def _run(namespace: argparse.Namespace) -> int:
    set_up_logging(verbose=namespace.verbose, log_file=namespace.log_file, quiet=namespace.quiet)
    code: int = namespace.run(namespace)
    return code


def _parser(prog: str) -> argparse.ArgumentParser:
    parser = Parser(prog=prog, description="Check golden queries, import, begin or have some written.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for add in (add_validate, add_import, add_init, add_synthesize, add_audit, add_label):
        add(commands)
    return parser
