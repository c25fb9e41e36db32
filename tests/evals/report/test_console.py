import re

from rich.markup import escape
from rich.table import Table

from evals.report.console import SafeConsole

EVIL = "\x1b[2J\x1b]8;;http://evil.invalid\x07\u202e[red]"


def test_cells_titles_and_lines_steer_nothing() -> None:
    console = SafeConsole(width=80, color=False)
    table = Table(title=escape(EVIL))
    table.add_column(escape(EVIL))
    table.add_row(escape(EVIL))
    console.print(escape(EVIL), table, style="dim")
    text = console.text.getvalue()
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", text)
    assert text.count(r"\x1b[2J") == 4 and "[red]" in text


def test_our_own_styles_are_kept() -> None:
    console = SafeConsole(width=80, color=True)
    console.print("[bold]yes[/bold]")
    assert console.text.getvalue() == "\x1b[1myes\x1b[0m\n"
