"""The subcommands of `python -m evals.golden`: each adds its flags and a function `lines`, which returns its output."""

import argparse
from typing import TypeAlias

from retrievers.terminal.command import Parser

Subcommands: TypeAlias = "argparse._SubParsersAction[Parser]"
