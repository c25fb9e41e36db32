"""Where statements end; what is a statement and what is text is in test_markdown, by whole pages."""

import random

import pytest

from retrievers.indexing.markdown import STRING, MdxLines


@pytest.mark.parametrize(
    ("page", "end"),
    [
        ("import a from 'b';", 1),
        ("export const a = (\n1\n)\nx", 3),
        ("export const a = {\nb: ')',\n\nc: [\n]}\nx", 5),
        ("export const a = (\n\nnever closed", 1),
        ("{/* one */}\nx", 1),
        ("{/* one\n\ntwo */}  \nx", 3),
        ("{/* one */} text", 0),
        ("{/* one\n*/} text\n*/}", 0),
        ("{/* never closed", 0),
        ("{/*/}\n*/}", 2),
        ("imported goods", 0),
        ("text", 0),
    ],
)
def test_a_statement_ends_where_it_is_closed(page: str, end: int) -> None:
    assert MdxLines(page.split("\n")).statement_end(1, 1) == end


def test_brackets_are_closed_where_counting_line_by_line_says() -> None:
    source = random.Random(0)
    for _ in range(300):
        lines = ["export const a = " + "".join(source.choices("(){}'ab", k=3)) for _ in range(source.randint(1, 30))]
        found = [MdxLines(lines).statement_end(start, start) for start in range(1, len(lines) + 1)]
        assert found == [counted(lines, start) for start in range(1, len(lines) + 1)]


def counted(lines: list[str], start: int) -> int:
    depth = 0
    for number, line in enumerate(lines[start - 1 :], start):
        code = STRING.sub("", line)
        depth += sum(code.count(c) for c in "([{") - sum(code.count(c) for c in ")]}")
        if depth <= 0:
            return number
    return start
