"""MDX in a page: imports, exports, comments and tags, which are code, not text. Linear in the lines of the page."""

import re
from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate

IMPORT = r"""import\s+(?:[\w$*{][^'";]*?\bfrom\s*)?["'][^"'\n]+["'];?\s*"""
EXPORT = r"export\s+(?:default|const|let|var|function|async|class|\{|\*).*"
STATEMENTS = re.compile(f"(?:{IMPORT})+(?:{EXPORT})?|{EXPORT}", re.DOTALL)
STRING = re.compile(r"""'[^']*'|"[^"]*"|`[^`]*`""")
COMMENT = r"\{/\*(?:(?!\*/\}).)*\*/\}"
COMMENT_END = "*/}"
# A tag, not an <https://...> or <me@...> link.
TAG = r"</?[A-Za-z](?![^\s<>]*[:@])(?:=>|[^<>])*>"
TAGS_ONLY = re.compile(rf"({TAG}|<!--(?:(?!-->).)*-->|{COMMENT}|\s)+", re.DOTALL)


def is_tags(text: str) -> bool:
    """Return True if a block consists of tags and comments alone."""
    return TAGS_ONLY.fullmatch(text) is not None


class MdxLines:
    """Lines of a page, to find the end of a statement that continues over blank lines."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines

    def statement_end(self, start: int, end: int) -> int:
        """Return the last line of the import, export or comment that starts a block, over blank lines too; else 0.

        Args:
            start: First line of the block, 1-based.
            end: Its last line.
        """
        first = self._lines[start - 1]
        if first.startswith("{/*"):
            return self._comment_end(start)
        if not first.startswith(("import", "export")):
            return 0
        return self._closed(start, end) if STATEMENTS.fullmatch("\n".join(self._lines[start - 1 : end])) else 0

    def _comment_end(self, start: int) -> int:
        """Return the line on which a comment ends, if no text follows it there; else 0."""
        following = bisect_left(self._comment_ends, start)
        for number in self._comment_ends[following : following + 2]:
            line = self._lines[number - 1]
            end = line.find(COMMENT_END, 3 if number == start else 0)
            if end >= 0:
                return 0 if line[end + 3 :].strip(" \t") else number
        return 0

    def _closed(self, start: int, end: int) -> int:
        """Return the first line from `end` on where all brackets since `start` are closed; `end` if there is none."""
        number = end
        while number < len(self._depths):
            if self._depths[number] <= self._depths[start - 1]:
                return number
            number = self._next_lower[number]
        return end

    @cached_property
    def _comment_ends(self) -> list[int]:
        return [number for number, line in enumerate(self._lines, 1) if COMMENT_END in line]

    @cached_property
    def _depths(self) -> list[int]:
        """Return the number of open brackets after each line; 0 before the first."""
        codes = (STRING.sub("", line) for line in self._lines)
        opened = (sum(code.count(c) for c in "([{") - sum(code.count(c) for c in ")]}") for code in codes)
        return [0, *accumulate(opened)]

    @cached_property
    def _next_lower(self) -> list[int]:
        """For each line the next one with fewer open brackets; the number of lines + 1 where there is none."""
        depths = self._depths
        following = [len(depths)] * len(depths)
        waiting: list[int] = []
        for number, depth in enumerate(depths):
            while waiting and depths[waiting[-1]] > depth:
                following[waiting.pop()] = number
            waiting.append(number)
        return following
