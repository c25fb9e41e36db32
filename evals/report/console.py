"""The one way to a styled text for a terminal."""

from io import StringIO
from typing import Any

from rich.console import Console
from rich.text import Text

from retrievers.text.printable import printable


class SafeConsole(Console):
    """A console that writes to a text in memory, on which nothing but its own styles steers the terminal."""

    def __init__(self, *, width: int, color: bool) -> None:
        self.text: StringIO = StringIO()
        super().__init__(file=self.text, width=width, force_terminal=color, no_color=not color, highlight=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """Render a text, cells of tables included, with nothing in it that steers the terminal."""
        return super().render_str(printable(text), **options)


def in_html(colored: str) -> str:
    """Return a text in a terminal's colours as HTML for a notebook, without script or style sheet."""
    console = Console(width=1_000, record=True, file=StringIO())
    console.print(Text.from_ansi(colored), soft_wrap=True)
    return console.export_html(inline_styles=True, code_format='<pre style="overflow-x: auto">{code}</pre>')
