"""The part of a chunk that a person can write a question to: prose, not code, tables or lists of references. Pure."""

import re
from collections.abc import Iterator

FENCE = re.compile(r"\s*(```|~~~)\s*(\S*)")
LINK = re.compile(r"https?://|\bdoi\b|arxiv|^\s*(?:[-*+]|\d+\.)\s*\[[^\]]*\]\([^)]*\)|^\s*\[\d+\]", re.IGNORECASE)
CODE = re.compile(r"\s*(?:def |class \w+[(:]|import \w+|from \S+ import |return |\$ |[\w.\[\]]+ = )|.*[;{}]\s*$")
REFERENCES = re.compile(r"#*\s*(references|bibliography|further reading|see also|links|sources)\s*:?\s*", re.IGNORECASE)
# A paragraph of fewer words is taken where there is no longer one.
ENOUGH_WORDS = 8
# Share of letters, digits and blanks that prose has at least; tables and most code have less.
LETTERS = 0.8


def prose(text: str) -> str:
    """Return the first paragraph of prose in a text, or the longest where all are short; empty without any."""
    paragraphs = [paragraph for paragraph in _paragraphs(text) if _is_prose(paragraph)]
    long = (paragraph for paragraph in paragraphs if len(paragraph.split()) >= ENOUGH_WORDS)
    return next(long, max(paragraphs, key=len, default=""))


def _paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs outside code fences, front matter and sections of references, without headings."""
    lines = text.strip().splitlines()
    fences = [match for line in lines if (match := FENCE.match(line))]
    # A chunk may begin inside a block of code, whose closing fence is then the first one.
    in_code = len(fences) % 2 == 1 and not fences[0][2]
    in_front = bool(lines) and lines[0].strip() == "---" and "---" in (line.strip() for line in lines[1:])
    paragraph: list[str] = []
    for number, line in enumerate([*lines, ""]):
        if in_front or FENCE.match(line):
            in_front = in_front and (number == 0 or line.strip() != "---")
            in_code ^= bool(FENCE.match(line))
        elif REFERENCES.fullmatch(line.strip()):
            break
        elif line.strip() and not in_code and not line.lstrip().startswith("#"):
            paragraph.append(line)
            continue
        if paragraph:
            yield "\n".join(paragraph)
        paragraph = []
    if paragraph:
        yield "\n".join(paragraph)


def _is_prose(paragraph: str) -> bool:
    lines = paragraph.splitlines()
    other = sum(bool(LINK.search(line) or CODE.match(line)) for line in lines)
    letters = sum(character.isalnum() or character.isspace() for character in paragraph)
    return letters >= LETTERS * len(paragraph) and 2 * other < max(2, len(lines))
