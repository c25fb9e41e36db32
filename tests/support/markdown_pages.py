"""Generated Docusaurus pages that know what must come out of them: every word is numbered, so each place is unique."""

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import NamedTuple

from hypothesis import strategies as st

WORDS = ("motor", "naïve", "日本", "x_y", "C++", "don't", "(aside)", "half-open", "3.5", "🤖", "a,b")
HEADING_LEVELS = (1, 2, 2, 3, 3, 4)


class Part(NamedTuple):
    """A stretch of a page with its lines (1-based), and the headings it stands under (its own included)."""

    source: str
    start_line: int
    end_line: int
    path: tuple[str, ...]


class Shape(NamedTuple):
    """Form of a part before it is written, with the number of its words."""

    form: str
    size: int
    word: str
    blank_lines: int


class GeneratedPage(NamedTuple):
    """A page with its parts; of them all text must be found again, and the headings of sections that hold text."""

    source: str
    parts: list[Part]
    kept: list[Part]


def write_page(found: Sequence[Shape], front_matter: bool) -> GeneratedPage:
    number = count()
    lines = ["---", "title: Title", "---", ""] if front_matter else []
    parts, kept, path = list[Part](), list[Part](), list[tuple[int, str]]()
    heading: Part | None = None
    for shape in found:
        words = [f"{shape.word}{next(number)}" for _ in range(shape.size)]
        is_heading = shape.form in ("heading", "setext")
        if is_heading:
            level = HEADING_LEVELS[shape.size % len(HEADING_LEVELS)] if shape.form == "heading" else 1 + shape.size % 2
            text = " ".join(words[:3])
            path = [(n, t) for n, t in path if n < level] + [(level, text)]
            source = f"{'#' * level} {text}" if shape.form == "heading" else f"{text}\n{'=-'[level - 1] * 3}"
        else:
            source = (TEXT_FORMS | DROPPED_FORMS)[shape.form](words)
        start = len(lines) + 1
        parts.append(Part(source, start, start + source.count("\n"), tuple(text for _, text in path)))
        lines += [*source.split("\n"), *[""] * shape.blank_lines]
        if is_heading:
            heading = parts[-1]
        elif shape.form in TEXT_FORMS:
            kept += [part for part in (heading, parts[-1]) if part]
            heading = None
    return GeneratedPage("\n".join(lines), parts, kept)


def pages() -> st.SearchStrategy[GeneratedPage]:
    forms = st.sampled_from([*TEXT_FORMS, *DROPPED_FORMS, "heading", "heading", "setext"])
    shape = st.builds(Shape, forms, st.integers(1, 40), st.sampled_from(WORDS), st.integers(1, 3))
    shapes = st.lists(shape, min_size=1, max_size=12).filter(lambda found: any(s.form in TEXT_FORMS for s in found))
    return st.builds(write_page, shapes, st.booleans())


def _rows(words: Sequence[str], width: int = 8) -> Iterator[str]:
    for start in range(0, len(words), width):
        yield " ".join(words[start : start + width])


def _lines(words: Sequence[str]) -> str:
    return "\n".join(_rows(words))


def _table(words: Sequence[str]) -> str:
    return "\n".join(["| head | other |", "|---|:-:|", *(f"| {row} | `#` |" for row in _rows(words, 4))])


TEXT_FORMS: dict[str, Callable[[Sequence[str]], str]] = {
    "paragraph": _lines,
    "long line": " ".join,
    "sentences": lambda words: ". ".join(_rows(words, 5)) + ".",
    "wide": " \t ".join,
    "unbroken": "".join,
    "hard breaks": lambda words: "  \n".join(_rows(words)) + "  ",
    "list": lambda words: "\n".join(f"- {row}" for row in _rows(words, 5)),
    "nested list": lambda words: "\n\n".join(
        ["1. " + words[0], *(f"   - {row}\n\n     ```\n     # {row}\n     ```" for row in _rows(words[1:]))]
    ),
    "quote": lambda words: "\n".join(f"> {row}" for row in _rows(words)),
    "table": _table,
    "fence": lambda words: "\n".join(["```python", *(f"# {row}\n" for row in _rows(words)), "```"]),
    "tildes": lambda words: "\n".join(["~~~", *(f"    ```\n## {row}" for row in _rows(words)), "~~~"]),
    "nested fence": lambda words: "\n".join(["````md", "```sh", *(f"# {row}" for row in _rows(words)), "```", "````"]),
    "indented": lambda words: "\n".join(f"    # {row}" for row in _rows(words)),
    "admonition": lambda words: "\n\n".join([f":::note[{words[0]}]", *_rows(words[1:]), ":::"]),
    "details": lambda words: f"<details>\n<summary>{words[0]}</summary>\n{_lines(words[1:]) or '.'}\n</details>",
    "definition": lambda words: "\n".join(f"[{word}]: https://example.com/{word} 'About {word}'" for word in words),
}
DROPPED_FORMS: dict[str, Callable[[Sequence[str]], str]] = {
    "import": lambda words: f"import {{\n  {words[0]},\n}} from '{words[-1]}';".replace("+", "").replace("'t", "t"),
    "export": lambda words: "\n".join(["export const a = [", *(f"  '# {row}'," for row in _exact(words)), "];"]),
    "tags": lambda words: f'<Tabs>\n<TabItem value="{words[0]}">',
    "closing tags": lambda words: "</TabItem>\n</Tabs>",
    "comment": lambda words: "{/* " + "\n".join(_rows(words)) + " */}",
    "html comment": lambda words: "<!-- " + "\n\n# ".join(_rows(words)) + " -->",
}


def _exact(words: Sequence[str]) -> list[str]:
    return [row.replace("'", "") for row in _rows(words)]
