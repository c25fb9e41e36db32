"""Character sets of files and web pages: marks and declarations are believed, other bytes are not guessed at."""

import codecs
import re

MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
DECLARATION = re.compile(rb"""<(?:meta|\?xml)[^>]{0,200}?(?:charset|encoding)\s*=\s*["']?\s*([\w:.-]{1,40})""", re.I)
# Bytes of an HTML page among which browsers look for its declaration.
DECLARED_WITHIN = 1_024


def charset(name: str | None) -> str:
    """Return the codec of a character set; UTF-8 for one that is unknown, or no character set of pages."""
    try:
        codec = codecs.lookup(name or "utf-8").name
        b"\xc3x".decode(codec, "replace")
    except (LookupError, UnicodeError):  # unknown, or one of Python's codecs of bytes
        return "utf-8"
    # What pages call Latin-1 is read by browsers as its superset.
    return {"iso8859-1": "cp1252", "ascii": "cp1252"}.get(codec, codec)


def decoded(data: bytes) -> str:
    """Decode a file: by its byte order mark, else as UTF-8.

    Raises:
        UnicodeDecodeError: It is not of that encoding.
    """
    return data.decode(_marked(data) or "utf-8")


def decoded_html(data: bytes) -> str:
    """Decode a page of HTML: by its byte order mark, else by what it declares, else as UTF-8 or Windows-1252.

    Bytes that are none of the declared character set become U+FFFD, as in browsers.
    """
    if mark := _marked(data):
        return data.decode(mark, "replace")
    if declared := DECLARATION.search(data[:DECLARED_WITHIN]):
        codec = charset(declared[1].decode("ascii", "replace"))
        # A declaration that can be read as ASCII is not in UTF-16.
        return data.decode("utf-8" if codec.startswith("utf-16") else codec, "replace")
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def _marked(data: bytes) -> str | None:
    return next((codec for mark, codec in MARKS.items() if data.startswith(mark)), None)
