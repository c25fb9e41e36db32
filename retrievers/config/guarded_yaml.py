"""YAML with guards: bounded nesting and aliases, no repeated key, every fault with its line.

They work on what PyYAML composes, before anything is built of it, and go with each of its pure-Python loaders.
"""

from typing import Any, NamedTuple

import yaml
from yaml.composer import Composer, ComposerError
from yaml.constructor import BaseConstructor, ConstructorError

from retrievers.text.quoting import quoted

# Filters may be 50 deep, each level of them a list in a mapping.
MOST_DEPTH = 120
# Lists, mappings, keys and values of a document; what an alias stands for counts each time.
MOST_VALUES = 100_000
MOST_DIGITS = 100


class YamlFault(yaml.YAMLError):
    """A text is not valid YAML, or more than the guards let through.

    Attributes:
        line: The line of the fault, 1-based.
        problem: The fault.
    """

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}")
        self.line = line
        self.problem = problem


class Guards(Composer, BaseConstructor):
    """The guards, the first of a loader's bases."""

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose a node that is not nested too deeply; composing is recursive."""
        if self._depth > MOST_DEPTH:
            raise ComposerError(None, None, f"nested more than {MOST_DEPTH} deep", self.peek_event().start_mark)  # type: ignore[attr-defined]
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def get_single_node(self) -> yaml.Node | None:
        """Compose the document and check it as a whole."""
        node = super().get_single_node()
        if node is not None:
            _measure(node, {})
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Build the value of a node, of which numbers, dates and the like may turn out to be none."""
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError):
            kind = node.tag.rpartition(":")[2]
            problem = f"expected a value of type {kind}, got {quoted(node.value)}; put text into quotes"
            raise ConstructorError(None, None, problem, node.start_mark) from None


class _Extent(NamedTuple):
    values: int
    depth: int


def load(text: str, loader: type[Any]) -> tuple[Any, dict[str, int]]:
    """Parse a YAML text into its value and the line of each of its keys by dotted name.

    Args:
        text: The text.
        loader: One of PyYAML's pure-Python loaders, with `Guards`.

    Raises:
        YamlFault: It is not valid, or too large.
    """
    try:
        reading = loader(text)
        node = reading.get_single_node()
        return (None, {}) if node is None else (reading.construct_document(node), dict(_lines(node, "")))
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise YamlFault(line, f"the character {chr(error.character)!r} has no place in YAML") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = ": ".join(part for part in (error.context, error.problem) if part)
        raise YamlFault(mark.line + 1 if mark else 1, problem) from None


def _measure(node: yaml.Node, measured: dict[int, _Extent | None]) -> _Extent:
    """Measure a node with all aliases followed; `measured` gains its extent; until then it holds None.

    Raises:
        ComposerError: The node breaks a guard.
    """
    if id(node) in measured:
        extent = measured[id(node)]
        if extent is None:
            raise ComposerError(None, None, "an alias refers to what it stands in", node.start_mark)
        return extent
    measured[id(node)] = None
    if isinstance(node, yaml.MappingNode):
        _refuse_repeated(node)
        parts = [part for pair in node.value for part in pair]
    else:
        parts = node.value if isinstance(node, yaml.SequenceNode) else []
    extents = [_measure(part, measured) for part in parts]
    extent = _Extent(1 + sum(inner.values for inner in extents), 1 + max((inner.depth for inner in extents), default=0))
    if extent.values > MOST_VALUES:
        raise ComposerError(None, None, f"holds more than {MOST_VALUES:,} values, aliases followed", node.start_mark)
    if extent.depth > MOST_DEPTH:
        raise ComposerError(None, None, f"nested more than {MOST_DEPTH} deep, aliases followed", node.start_mark)
    if isinstance(node, yaml.ScalarNode):
        _refuse_unreadable(node)
    measured[id(node)] = extent
    return extent


def _refuse_repeated(node: yaml.MappingNode) -> None:
    lines: dict[tuple[str, str], int] = {}
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            continue
        name = (key.tag, key.value)
        if name in lines:
            problem = f"{quoted(key.value)} is given twice, first at line {lines[name]}; leave one of them out"
            raise ComposerError(None, None, problem, key.start_mark)
        lines[name] = key.start_mark.line + 1


def _refuse_unreadable(node: yaml.ScalarNode) -> None:
    if node.tag == "tag:yaml.org,2002:int" and len(node.value) > MOST_DIGITS:
        problem = f"a number of {len(node.value):,} digits, expected at most {MOST_DIGITS}"
        raise ComposerError(None, None, problem, node.start_mark)
    if any("\ud800" <= character <= "\udfff" for character in node.value):
        raise ComposerError(None, None, "half of a surrogate pair, which is no character", node.start_mark)


def _lines(node: yaml.Node, prefix: str) -> list[tuple[str, int]]:
    if not isinstance(node, yaml.MappingNode):
        return []
    lines: list[tuple[str, int]] = []
    for key, value in node.value:
        name = f"{prefix}{key.value}"
        lines += [(name, key.start_mark.line + 1), *_lines(value, f"{name}.")]
    return lines
