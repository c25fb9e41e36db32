"""Benchmarks run from a checkout as it is, with nothing but the dependencies installed."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OURS = {"evals", "retrievers", "tests"}
SCRIPTS = sorted((ROOT / "benchmarks").glob("*.py"))


def packages(node: ast.stmt) -> set[str]:
    """The packages that a statement imports, itself alone."""
    if isinstance(node, ast.ImportFrom):
        return {(node.module or "").partition(".")[0]}
    return {name.name.partition(".")[0] for name in node.names} if isinstance(node, ast.Import) else set()


def statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """Every statement that runs, in the order of the text."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    typing = {
        id(inner)
        for node in found
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in node.body
    }
    yield from sorted((node for node in found if id(node) not in typing), key=lambda node: node.lineno)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_the_checkout_is_on_the_path_before_the_first_import_of_it(script: Path) -> None:
    ordered = list(statements(ast.parse(script.read_text(encoding="utf-8"))))
    inserted = [node.lineno for node in ordered if ast.unparse(node).startswith("sys.path.insert(0, ")]
    imported = [node.lineno for node in ordered if packages(node) & OURS]
    assert not imported or (inserted and inserted[0] < imported[0])
