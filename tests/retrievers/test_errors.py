import re

import pytest

from retrievers import errors
from retrievers.errors import ConfigError, IndexingError, RetrievalError, nearest


def test_the_tree_drawn_at_the_head_is_the_tree() -> None:
    parents: dict[str, str] = {}
    above: dict[int, str] = {}
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"([│├└─ ]*)(\w+Error)\b", line)
        if found:
            depth = len(found[1])
            above[depth] = found[2]
            parents[found[2]] = above[max(d for d in above if d < depth)] if depth else "Exception"
    classes = {
        name: kind
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and kind.__module__ == errors.__name__
    }
    assert parents == {name: kind.__bases__[0].__name__ for name, kind in classes.items()}


def test_an_indexing_error_lists_every_fault_on_its_own_line() -> None:
    error = IndexingError("two pages are broken:", ["a.md: no title", "b.md: not UTF-8"])
    assert str(error) == "two pages are broken:\n  a.md: no title\n  b.md: not UTF-8"
    assert error.faults == ("a.md: no title", "b.md: not UTF-8")


def test_one_except_clause_catches_them_all() -> None:
    with pytest.raises(RetrievalError):
        raise ConfigError("x")


@pytest.mark.parametrize(
    ("name", "known", "clause"),
    [
        ("titel", ["title", "text", "module"], "; did you mean 'title'?"),
        ("source", ["source_url", "tags"], "; did you mean 'source_url'?"),
        ("book", ["physical_handbook", "module"], "; did you mean 'physical_handbook'?"),  # contained, not alike
        ("store.pth", ["store.path", "top_k"], "; did you mean 'store.path'?"),
        ("xyz", ["title", "module"], ""),
        ("", ["title"], ""),
        ("titel", [], ""),
        ("title", ["title"], "; did you mean 'title'?"),
        ("titel", ["title", "title", "title"], "; did you mean 'title'?"),  # a flag of several commands
    ],
)
def test_the_nearest_known_names_are_suggested(name: str, known: list[str], clause: str) -> None:
    assert nearest(name, known) == clause


def test_at_most_three_names_are_suggested() -> None:
    assert nearest("page", [f"page{n}" for n in range(9)]).count(" or ") == 2
    assert nearest("age", [f"a_very_long_page_{n}" for n in range(9)]).count(" or ") == 2


def test_known_names_may_come_from_a_generator() -> None:
    assert nearest("book", (name for name in ["physical_handbook"])) == "; did you mean 'physical_handbook'?"
