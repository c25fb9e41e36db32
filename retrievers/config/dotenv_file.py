"""A `.env` file: variables that the environment does not set."""

import io
import logging
import re
from collections.abc import Iterable
from pathlib import Path

from dotenv import dotenv_values
from dotenv.parser import Binding, parse_stream

from retrievers.config.text_files import read_text
from retrievers.errors import ConfigError
from retrievers.text.quoting import quoted

# Largest `.env` file: hundreds of variables.
MOST_BYTES = 20_000
# Characters of a value, `${NAME}` replaced.
MOST_CHARACTERS = 100_000
# References in a value: dotenv takes long over thousands that do not end.
MOST_REFERENCES = 100
REFERENCE = re.compile(r"\$\{([^}:]*)")
log = logging.getLogger(__name__)


def read_dotenv(file: Path) -> dict[str, str]:
    """Read the variables of a `.env` file; none if there is no such file. Values are never shown.

    Raises:
        ConfigError: It cannot be read, gives a variable two values, or one that grows beyond all bounds.
    """
    if not file.is_file():
        return {}
    text = read_text(file, "a .env file of NAME=value lines", MOST_BYTES)
    statements = list(parse_stream(io.StringIO(text)))
    for broken in (statement for statement in statements if statement.error):
        log.warning("%s:%s: expected NAME=value; the line is left out", file, _line(broken))
    bindings = [statement for statement in statements if statement.key is not None]
    _check_unambiguous(bindings, file)
    _check_bounded(bindings, file)
    # Only the valid statements are evaluated; broken ones were reported above.
    read = io.StringIO("".join(binding.original.string for binding in bindings))
    return {name: value for name, value in dotenv_values(stream=read).items() if value is not None}


def _check_unambiguous(bindings: Iterable[Binding], file: Path) -> None:
    first: dict[str | None, Binding] = {}
    for binding in bindings:
        before = first.setdefault(binding.key, binding)
        if before.value != binding.value:
            raise ConfigError(
                f"{file}:{_line(binding)}: {quoted(binding.key)} has another value than at line {_line(before)}; "
                "leave one of them out"
            )


def _check_bounded(bindings: Iterable[Binding], file: Path) -> None:
    """Make sure that references are few, and do not multiply."""
    lengths: dict[str | None, int] = {}
    for binding in bindings:
        value = binding.value or ""
        if value.count("${") > MOST_REFERENCES:
            raise ConfigError(
                f"{file}:{_line(binding)}: {quoted(binding.key)} holds more than {MOST_REFERENCES} times ${{; "
                "write the value out"
            )
        # References multiply: a chain of variables that each name the one before twice doubles at every step.
        length = len(value) + sum(lengths.get(name, 0) for name in REFERENCE.findall(value))
        if length > MOST_CHARACTERS:
            raise ConfigError(
                f"{file}:{_line(binding)}: {quoted(binding.key)} would have over {MOST_CHARACTERS:,} "
                "characters with its ${...} replaced; write the value out"
            )
        lengths[binding.key] = length


def _line(binding: Binding) -> int:
    """Return the line of a variable; dotenv may start counting at a blank line."""
    text = binding.original.string
    return binding.original.line + text[: len(text) - len(text.lstrip())].count("\n")
