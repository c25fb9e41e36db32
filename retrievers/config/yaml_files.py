"""YAML for settings: `1:20` is a text, not the number 80.

YAML 1.1, which PyYAML reads, takes digits joined by colons for base 60; YAML 1.2 has dropped that.
"""

import re
from typing import Any

import yaml

from retrievers.config.guarded_yaml import Guards
from retrievers.config.guarded_yaml import load as load_guarded

INTEGER, FLOAT = "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"


class PlainLoader(Guards, yaml.SafeLoader):
    """The safe loader without numbers in base 60."""


PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in known if tag not in (INTEGER, FLOAT)]
    for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
PlainLoader.add_implicit_resolver(
    INTEGER,
    re.compile(r"^(?:[-+]?0b[0-1_]+|[-+]?0[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+)$"),
    list("-+0123456789"),
)
PlainLoader.add_implicit_resolver(
    FLOAT,
    re.compile(
        r"^(?:[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
    ),
    list("-+0123456789."),
)


class FlagLoader(Guards, yaml.BaseLoader):
    """YAML on the command line: all scalars are text, also words that begin with a mark, such as `*` or `>= 0.1`."""

    def check_plain(self) -> bool:
        """Return True if a word begins here."""
        return bool(super().check_plain()) or self.peek() in ">|%@`"

    def fetch_alias(self) -> None:
        """Read the mark as a letter: a flag has one line, and nothing to refer to."""
        self.fetch_plain()

    fetch_anchor = fetch_tag = fetch_literal = fetch_folded = fetch_alias


def load_flag(text: str) -> Any:
    """Parse the list or mapping of a flag, its scalars all text, or else return the text.

    Raises:
        yaml.YAMLError: It begins with a bracket, a brace or a quote and does not go on as YAML.
    """
    try:
        value, _ = load_guarded(text, FlagLoader)
    except yaml.YAMLError:
        if text.lstrip().startswith(("[", "{", '"', "'")):
            raise
        return text
    return text if value is None else value


def load(text: str) -> Any:
    """Parse a YAML text.

    Raises:
        yaml.YAMLError: It is not valid.
    """
    return load_with_lines(text)[0]


def load_with_lines(text: str) -> tuple[Any, dict[str, int]]:
    """Parse a YAML text into its value and the line of each key by dotted name.

    Raises:
        yaml.YAMLError: It is not valid.
    """
    return load_guarded(text, PlainLoader)
