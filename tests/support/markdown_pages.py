"""Generated Docusaurus pages that know what must come out of them: every word is numbered, so each place is unique."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Literal

from hypothesis import strategies as st

Kind = Literal["text", "heading", "dropped"]
WORDS = ("motor", "naïve", "日本", "x_y", "C++", "don't", "(aside)", "half-open", "3.5", "🤖", "a,b")
HEADING_LEVELS = (1, 2, 2, 3, 3, 4)


@dataclass(frozen=True, kw_only=True)
class Part:
    """A stretch of a page, its first line (1-based), and the headings it stands under (its own included)."""

    source: str
    kind: Kind
    start_line: int
    path: tuple[str, ...]

    @property
    def end_line(self) -> int:
        return self.start_line + self.source.count("\n")


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Form of a part before it is written: its kind, its words and their number."""

    form: str
    size: int
    word: str
    blank_lines: int


@dataclass(frozen=True, kw_only=True)
class GeneratedPage:
    source: str
    parts: tuple[Part, ...]

    @property
    def kept(self) -> tuple[Part, ...]:
        """The parts that must be found again: all text, and the headings of sections that hold text."""
        with_text = {self._section(i) for i, part in enumerate(self.parts) if part.kind == "text"}
        return tuple(
            part
            for i, part in enumerate(self.parts)
            if part.kind == "text" or (part.kind == "heading" and i in with_text)
        )

    def _section(self, index: int) -> int:
        """Return the index of the heading a part stands under (-1 before the first)."""
        return next((i for i in range(index, -1, -1) if self.parts[i].kind == "heading"), -1)


def shapes(*, max_size: int = 40) -> st.SearchStrategy[list[Shape]]:
    shape = st.builds(
        Shape,
        form=st.sampled_from([*TEXT_FORMS, *DROPPED_FORMS, "heading", "heading", "setext"]),
        size=st.integers(1, max_size),
        word=st.sampled_from(WORDS),
        blank_lines=st.integers(1, 3),
    )
    return st.lists(shape, min_size=1, max_size=12).filter(lambda found: any(s.form in TEXT_FORMS for s in found))


def write_page(found: Sequence[Shape], *, front_matter: bool = False, first_number: int = 0) -> GeneratedPage:
    number = count(first_number)
    lines = ["---", "title: Title", "---", ""] if front_matter else []
    parts: list[Part] = []
    path: list[tuple[int, str]] = []
    for shape in found:
        words = [f"{shape.word}{next(number)}" for _ in range(shape.size)]
        if shape.form in ("heading", "setext"):
            level = HEADING_LEVELS[shape.size % len(HEADING_LEVELS)] if shape.form == "heading" else 1 + shape.size % 2
            text = " ".join(words[:3])
            path = [(n, t) for n, t in path if n < level] + [(level, text)]
            source = f"{'#' * level} {text}" if shape.form == "heading" else f"{text}\n{'=-'[level - 1] * 3}"
            kind: Kind = "heading"
        else:
            source = (TEXT_FORMS | DROPPED_FORMS)[shape.form](words)
            kind = "text" if shape.form in TEXT_FORMS else "dropped"
        headings = tuple(text for _, text in path)
        parts.append(Part(source=source, kind=kind, start_line=len(lines) + 1, path=headings))
        lines += [*source.split("\n"), *[""] * shape.blank_lines]
    return GeneratedPage(source="\n".join(lines), parts=tuple(parts))


def pages(*, max_size: int = 40) -> st.SearchStrategy[GeneratedPage]:
    return st.builds(write_page, shapes(max_size=max_size), front_matter=st.booleans())


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
