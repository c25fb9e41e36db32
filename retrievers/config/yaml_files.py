"""YAML for settings: `1:20` is a text, not the number 80; no key stands twice; every fault has its line."""

import re
from typing import Any

import yaml

# YAML 1.1, which PyYAML reads, takes digits joined by colons for base 60; YAML 1.2 has dropped that.
BASE_60 = re.compile(r"^[-+]?[0-9][0-9_]*(?::[0-9_.]+)+$")


class YamlFault(yaml.YAMLError):
    """A text is not valid YAML.

    Attributes:
        line: The line of the fault, 1-based.
        problem: The fault.
    """

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}")
        self.line, self.problem = line, problem


class _UniqueKeys(yaml.constructor.BaseConstructor):
    """The first base of a loader that refuses a repeated key."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        lines: dict[tuple[str, str], int] = {}
        for key, _ in node.value:
            name = (key.tag, str(key.value))
            if name in lines:
                problem = f"{key.value!r} is given twice, first at line {lines[name]}; leave one of them out"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            lines[name] = key.start_mark.line + 1
        return super().construct_mapping(node, deep)


class PlainLoader(_UniqueKeys, yaml.SafeLoader):
    """The safe loader without numbers in base 60."""


PlainLoader.yaml_implicit_resolvers = {
    first: [("tag:yaml.org,2002:str", BASE_60), *known]
    for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class FlagLoader(_UniqueKeys, yaml.BaseLoader):
    """YAML on the command line: all scalars are text, also words that begin with a mark, such as `*` or `>= 0.1`."""

    def check_plain(self) -> bool:
        """Return True if a word begins here."""
        return bool(super().check_plain()) or self.peek() in ">|%@`"

    def fetch_alias(self) -> None:
        """Read the mark as a letter: a flag has one line, and nothing to refer to."""
        self.fetch_plain()

    fetch_anchor = fetch_tag = fetch_literal = fetch_folded = fetch_alias


def load(text: str, loader: type[PlainLoader | FlagLoader] = PlainLoader) -> tuple[Any, dict[str, int]]:
    """Parse a YAML text into its value and the line of each key by dotted name.

    Raises:
        YamlFault: It is not valid.
    """
    try:
        reading = loader(text)
        node = reading.get_single_node()
        return (None, {}) if node is None else (reading.construct_document(node), dict(_lines(node, "")))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlFault(mark.line + 1 if mark else 1, ": ".join(filter(None, (error.context, error.problem)))) from None
    except (yaml.YAMLError, ValueError, KeyError, RecursionError) as error:  # such as a date that is none
        raise YamlFault(1, str(error).splitlines()[0]) from None


def load_flag(text: str) -> Any:
    """Parse the list or mapping of a flag, its scalars all text, or else return the text.

    Raises:
        YamlFault: It begins with a bracket, a brace or a quote and does not go on as YAML.
    """
    try:
        value, _ = load(text, FlagLoader)
    except YamlFault:
        if text.lstrip().startswith(("[", "{", '"', "'")):
            raise
        return text
    return text if value is None else value


def _lines(node: yaml.Node, prefix: str) -> list[tuple[str, int]]:
    if not isinstance(node, yaml.MappingNode):
        return []
    lines: list[tuple[str, int]] = []
    for key, value in node.value:
        name = f"{prefix}{key.value}"
        lines += [(name, key.start_mark.line + 1), *_lines(value, f"{name}.")]
    return lines
