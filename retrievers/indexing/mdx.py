"""MDX in a page: imports, exports, comments and tags, which are code and no text. Linear in the lines of the page."""

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
TAG = r"</?[A-Za-z](?![^\s<>]*[:@])(?:=>|[^<>])*>"  # a tag, not an <https://...> or <me@...> link
TAGS_ONLY = re.compile(rf"({TAG}|<!--(?:(?!-->).)*-->|{COMMENT}|\s)+", re.DOTALL)


def is_tags(text: str) -> bool:
    """Whether a block is made of tags and comments alone."""
    return TAGS_ONLY.fullmatch(text) is not None


class MdxLines:
    """The lines of a page, by which the end of a statement is found that goes on over blank lines."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines

    def statement_end(self, start: int, end: int) -> int:
        """The last line of the import, export or comment that begins with a block, over blank lines too; else 0.

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
        """The line on which a comment ends, if nothing stands behind it there; else 0."""
        following = bisect_left(self._comment_ends, start)
        for number in self._comment_ends[following : following + 2]:
            line = self._lines[number - 1]
            place = line.find(COMMENT_END, 3 if number == start else 0)
            if place >= 0:
                return 0 if line[place + 3 :].strip(" \t") else number
        return 0

    def _closed(self, start: int, end: int) -> int:
        """The first line from `end` on at which all brackets since `start` are closed; `end` if they never are."""
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
        """How many more brackets are open than closed after each line; before the first line 0."""
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
