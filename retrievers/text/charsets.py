"""Character sets of files and web pages: marks and declarations are believed, other bytes are not guessed at."""

import codecs
import re

MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
# A declaration among the bytes of an HTML page where browsers look for it.
DECLARATION = re.compile(rb"""<(?:meta|\?xml)[^>]{0,200}?(?:charset|encoding)\s*=\s*["']?\s*([\w:.-]{1,40})""", re.I)
DECLARED_WITHIN = 1_024
# What pages call Latin-1 or ASCII is read by browsers as Windows-1252.
SUPERSET = {"iso8859-1": "cp1252", "ascii": "cp1252"}


def decoded(data: bytes) -> str:
    """Decode a file: by its byte order mark, else as UTF-8.

    Raises:
        UnicodeDecodeError: It is not of that encoding.
    """
    mark = next((mark for mark in MARKS if data.startswith(mark)), b"")
    return data.decode(MARKS.get(mark, "utf-8"))


def decoded_html(data: bytes, declared: str | None = None) -> str:
    """Decode a page: as a file, or else as the server or the page declares, or as Windows-1252.

    Bytes that are none of the declared character set become U+FFFD, as in browsers.

    Args:
        data: The page.
        declared: The character set that a server named, if any.
    """
    try:
        return decoded(data)
    except UnicodeDecodeError:
        inside = DECLARATION.search(data[:DECLARED_WITHIN])
        name = declared or (inside[1].decode("ascii") if inside else "cp1252")
    try:
        codec = codecs.lookup(name).name
        return data.decode(SUPERSET.get(codec, codec), "replace")
    except (LookupError, UnicodeError):  # unknown, or one of Python's codecs of bytes
        return data.decode("utf-8", "replace")
