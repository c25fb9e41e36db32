"""Character sets of files and web pages."""

import codecs
import re

# Others, such as UTF-7, can hide markup, and some of Python's codecs are no charsets.
CHARSETS = frozenset(
    {"utf-8", "utf-8-sig", "ascii", "iso8859-1", "iso8859-2", "iso8859-15", "cp1250", "cp1251", "cp1252", "koi8-r"}
    | {"utf-16", "utf-16-le", "utf-16-be", "shift_jis", "euc_jp", "gbk", "gb18030", "big5", "euc_kr"}
)
# The longer mark first: that of UTF-32 begins with that of UTF-16.
MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
DECLARATION = re.compile(rb"""<(?:meta|\?xml)[^>]{0,200}?(?:charset|encoding)\s*=\s*["']?\s*([\w:.-]{1,40})""", re.I)
# Bytes of an HTML page among which browsers look for its declaration.
DECLARED_WITHIN = 1_024


def charset(name: str | None, default: str = "utf-8") -> str:
    """Return the codec of a character set; the default for one that is unknown."""
    try:
        codec = codecs.lookup(name or default).name
    except (LookupError, ValueError):  # unknown, or no name at all
        codec = default
    # What pages call Latin-1 is read by browsers as its superset.
    return {"iso8859-1": "cp1252", "ascii": "cp1252"}.get(codec, codec) if codec in CHARSETS else default


def decoded(data: bytes) -> str:
    """Decode a file: by its byte order mark, else as UTF-8.

    Raises:
        UnicodeDecodeError: It is not of that encoding.
    """
    return data.decode(next((name for mark, name in MARKS if data.startswith(mark)), "utf-8"))


def decoded_html(data: bytes) -> str:
    """Decode a page of HTML: by its byte order mark, else by what it declares, else as UTF-8 or Windows-1252.

    Bytes that are none of the declared character set become U+FFFD, as in browsers.
    """
    if any(data.startswith(mark) for mark, _ in MARKS):
        return decoded(data)
    declared = DECLARATION.search(data[:DECLARED_WITHIN])
    if declared:
        codec = charset(declared[1].decode("ascii", "replace"))
        # A declaration that can be read as ASCII is not in UTF-16.
        return data.decode("utf-8" if codec.startswith("utf-16") else codec, "replace")
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")
