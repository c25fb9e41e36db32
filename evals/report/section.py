"""Sections of texts, and their renderers for a terminal, for Markdown and for notebooks. The page has its own renderer.

Every text is made harmless here, once: it can neither steer a terminal nor be taken for markup.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from io import StringIO
from textwrap import wrap

from rich.console import Console
from rich.table import Table
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from retrievers.text.shown import printable

# Words of a tone to the style on a terminal.
STYLES = {"good": "green", "fair": "yellow", "bad": "red", "bold": "bold", "dim": "dim"}
# Most characters of a line in the heading of a column. A longer heading is broken into lines.
HEADING = 13
# Characters between two columns.
BETWEEN = 2
# What a notebook shows: its own style sheet may give a text in `pre` another font.
IN_HTML = '<pre style="overflow-x: auto; font-family: monospace">{code}</pre>'
# Width of what a notebook or a prompt prints.
PRINTED = 100
# Width at which no table is cut.
UNCUT = 10_000
# Colours of a notebook, at least 3.6 : 1 on white and on the grounds of dark themes: red, green, yellow; else grey.
GREY, *READABLE = (127, 127, 127), (217, 64, 64), (31, 138, 63), (154, 112, 0)
THEME = TerminalTheme((255, 255, 255), (0, 0, 0), [GREY, *READABLE, *[GREY] * 4])
# Texts of a cell without a value.
NOTHING = {"", "–"}
# It writes to its file alone: in a notebook rich would show the text beside, on old Windows call the system.
_console = partial(Console, force_jupyter=False, legacy_windows=False)


@dataclass(frozen=True)
class Styled:
    """A text with its style.

    Attributes:
        text: The text.
        tone: Words of `STYLES`, separated by blanks.
    """

    text: str
    tone: str = ""

    def __post_init__(self) -> None:
        """Make the text harmless."""
        object.__setattr__(self, "text", printable(self.text))


@dataclass(frozen=True)
class Line:
    """Texts side by side. Where they do not fit, they are wrapped, cut (`is_cut`), or left as they are (a command)."""

    parts: tuple[Styled, ...]
    is_cut: bool = False
    is_command: bool = False

    @property
    def text(self) -> str:
        """The line without styles."""
        return "".join(part.text for part in self.parts)


@dataclass(frozen=True)
class Column:
    """A column of a table. A column that is not needed is left out if a terminal has no room for it."""

    name: str
    is_number: bool = False
    is_needed: bool = True


@dataclass(frozen=True, kw_only=True)
class Section:
    """A section of the output: lines, then a table with lines below it.

    Attributes:
        name: Name of the section on a page.
        title: Heading; empty for none.
        lines: Lines above the table.
        columns: Columns of the table. If no column has a name, the table has no head.
        rows: Rows of the table, with a text for each column.
        below: Lines below the table.
        spills: True if a second table takes the columns for which the first one has no room.
    """

    name: str = ""
    title: str = ""
    lines: Sequence[Line] = ()
    columns: Sequence[Column] = ()
    rows: Sequence[Sequence[Styled]] = ()
    below: Sequence[Line] = ()
    spills: bool = False


def row_of(*parts: Styled | str) -> tuple[Styled, ...]:
    """Return a row of styled and plain texts."""
    return tuple(Styled(part) if isinstance(part, str) else part for part in parts)


def line(*parts: Styled | str, is_cut: bool = False, is_command: bool = False) -> Line:
    """Return a line of styled and plain texts."""
    return Line(row_of(*parts), is_cut, is_command)


def shown_columns(columns: Sequence[Column], rows: Sequence[Sequence[Styled]]) -> list[int]:
    """Return the places of the columns that are needed, or have a value in some row."""
    return [n for n, column in enumerate(columns) if column.is_needed or {row[n].text for row in rows} - NOTHING]


def terminal(sections: Iterable[Section], *, width: int, color: bool, whole: bool = False) -> str:
    """Return sections for a terminal.

    Args:
        sections: The sections.
        width: Width of the terminal, in columns.
        color: Use colors.
        whole: Shorten no line, since no terminal shows the text. Only sentences are wrapped.
    """
    file = StringIO()
    console = _console(file=file, width=width, force_terminal=color, no_color=not color, highlight=False)
    for section in sections:
        if section.title:
            console.print(Text(printable(section.title), style="bold"))
        for above in section.lines:
            _print_line(console, above, whole=whole)
        console.width = UNCUT if whole else width
        for table in _tables(section, console.width) if section.rows else ():
            console.print(table)
        console.width = width
        for below in section.below:
            _print_line(console, below, whole=whole)
    return file.getvalue()


def markdown(section: Section) -> Iterator[str]:
    """Yield the lines of a section, then its table, as Markdown. Bad values are bold."""
    yield from (escaped(above.text) for above in section.lines)
    if section.rows:
        yield f"|{''.join(f' {escaped(column.name)} |' if column.name else ' |' for column in section.columns)}"
        yield f"|{'---|' * len(section.columns)}"
    for row in section.rows:
        texts = (f"**{escaped(part.text)}**" if "bad" in part.tone else escaped(part.text) for part in row)
        yield f"| {' | '.join(texts)} |"


def escaped(text: str) -> str:
    """Return a text that Markdown shows literally, in one line. On GitHub it mentions nobody and is no formula."""
    # An underscore within a word needs no backslash.
    plain = re.sub(r"([\\`*{}\[\]<>|~&]|#(?!\d)|(?<![^\W_])_|_(?![^\W_]))", r"\\\1", " ".join(printable(text).split()))
    # GitHub looks for these characters after Markdown has removed the backslashes.
    return re.sub(r"[@$]|#(?=\d)", r"<span>\g<0></span>", plain)


def in_html(colored: str) -> str:
    """Return a text with the colours of a terminal as HTML for a notebook, without script or style sheet."""
    console = _console(width=1_000, record=True, file=StringIO())
    console.print(Text.from_ansi(colored), soft_wrap=True)
    return console.export_html(inline_styles=True, code_format=IN_HTML, theme=THEME)


def _style(part: Styled) -> str:
    return " ".join(STYLES[word] for word in part.tone.split())


def _print_line(console: Console, printed: Line, *, whole: bool) -> None:
    is_cut = printed.is_cut and not whole
    is_long = printed.is_command or (whole and printed.is_cut)
    text = Text.assemble(*((part.text, _style(part)) for part in printed.parts))
    console.print(text, no_wrap=is_cut, overflow="ellipsis" if is_cut else None, soft_wrap=is_long)


def _tables(section: Section, width: int) -> Iterator[Table]:
    """Yield a table of the columns that fit, and if the section spills, one of the first column and the others."""
    shown = shown_columns(section.columns, section.rows)
    fitting = list(shown)
    for number in [number for number in reversed(shown) if not section.columns[number].is_needed]:
        if sum(_width(section, number) for number in fitting) + BETWEEN * (len(fitting) - 1) <= width:
            break
        fitting.remove(number)
    yield _table(section, fitting, width, is_rest=False)
    rest = [number for number in shown if number not in fitting]
    if section.spills and rest:
        yield _table(section, [shown[0], *rest], width, is_rest=True)


def _heading(name: str) -> str:
    """Return the name of a metric broken after `/` and `_` into short lines. Any other name stays as it is."""
    group, slash, rest = name.partition("/")
    if not slash or "/" in rest:
        return name
    return "\n".join([group + slash, *(part.replace(" ", "") for part in wrap(rest.replace("_", "_ "), HEADING))])


def _width(section: Section, number: int) -> int:
    texts = (row[number].text for row in section.rows)
    return max(map(len, [*_heading(section.columns[number].name).splitlines(), *texts]), default=0)


def _table(section: Section, numbers: Sequence[int], width: int, *, is_rest: bool) -> Table:
    columns = [section.columns[number] for number in numbers]
    table = Table(box=None, pad_edge=False, header_style="bold", show_header=any(column.name for column in columns))
    # If not even the needed columns have room, texts are broken and not cut.
    is_broken = sum(_width(section, number) + BETWEEN for number in numbers) - BETWEEN > width
    for column in columns:
        heading = _heading(column.name)
        table.add_column(
            Text(printable(heading)),
            justify="right" if column.is_number else "left",
            no_wrap=not is_broken and ((column.is_needed and not is_rest) or column.is_number),
            overflow="fold",
            min_width=max(map(len, heading.splitlines())) if "\n" in heading else None,
        )
    for row in section.rows:
        table.add_row(*(Text(row[number].text, style=_style(row[number])) for number in numbers))
    return table
