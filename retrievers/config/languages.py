"""Languages of stop words and stemmers, and the words of a text."""

import re

from retrievers.errors import nearest

DEFAULT_LANGUAGE = "english"
# Languages for suggestions; the library itself decides.
LANGUAGES = (
    *("arabic", "azerbaijani", "basque", "bengali", "catalan", "chinese", "danish", "dutch", "english", "finnish"),
    *("french", "german", "greek", "hebrew", "hinglish", "hungarian", "indonesian", "italian", "japanese", "kazakh"),
    *("nepali", "norwegian", "portuguese", "romanian", "russian", "slovene", "spanish", "swedish", "tajik", "turkish"),
)


def check_language(name: str) -> None:
    """Make sure that the library has stop words and a stemmer for a language.

    Raises:
        ValueError: It has not; the nearest names are given.
    """
    from qdrant_edge import Bm25, Bm25Config

    try:
        Bm25(Bm25Config(language=name))
    except ValueError:
        raise ValueError(f"no stop words and stemmer for {name!r}{nearest(name, LANGUAGES)}") from None


def words(text: str) -> list[str]:
    """Return the words of a text, in lower case."""
    return re.findall(r"\w+", text.lower())
