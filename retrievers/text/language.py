"""The language of a query beside that of texts, by py3langid: nothing is downloaded."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

NAMES = {
    "ar": "Arabic", "bg": "Bulgarian", "bn": "Bengali", "cs": "Czech", "da": "Danish", "de": "German",
    "el": "Greek", "en": "English", "es": "Spanish", "et": "Estonian", "eu": "Basque", "fa": "Persian", "fi": "Finnish",
    "fr": "French", "he": "Hebrew", "hi": "Hindi", "hr": "Croatian", "hu": "Hungarian", "hy": "Armenian",
    "id": "Indonesian", "it": "Italian", "ja": "Japanese", "ka": "Georgian", "kk": "Kazakh", "ko": "Korean",
    "lt": "Lithuanian", "lv": "Latvian", "mk": "Macedonian", "ne": "Nepali", "nl": "Dutch", "no": "Norwegian",
    "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sk": "Slovak", "sl": "Slovenian",
    "sq": "Albanian", "sr": "Serbian", "sv": "Swedish", "ta": "Tamil", "te": "Telugu", "th": "Thai", "tr": "Turkish",
    "uk": "Ukrainian", "ur": "Urdu", "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip
"""Languages that are told apart. Those that differ from one of these in little, such as Catalan, are left out."""
# Log-likelihood ratio of two languages for a query. Of 434 English queries and 24 lines of code one is above, of 52
# queries in other languages one below.
LEAST_MARGIN = 7.0
# Characters of each text, of all of them, and the least that tell a language.
OF_EACH, OF_ALL, LEAST_CHARACTERS = 200, 600, 120
WORD = re.compile(r"[^\W\d_]+")


class Languages(NamedTuple):
    """The language of a query and that of what was found, which differ."""

    asked: str
    found: str


def differing(query: str, texts: Sequence[str]) -> Languages | None:
    """Return the languages of a query and of what was found for it; None where they are one, or nobody can tell.

    A query all of whose words occur in the texts is in their language, whatever it looks like.

    Args:
        query: The query.
        texts: What was found for it, the best first.
    """
    sample = _sample(texts)
    if len(sample) < LEAST_CHARACTERS or not WORD.search(query):
        return None
    scores = _scores(query)
    asked, found = max(scores, key=scores.__getitem__), _language(sample)
    if scores[asked] - scores[found] < LEAST_MARGIN or _words([query]) <= _words(texts):
        return None
    return Languages(NAMES[asked], NAMES[found])


def _sample(texts: Iterable[str]) -> str:
    """Return the beginnings of texts in a line; more would cost time and tell no more."""
    return " ".join(" ".join(text[:OF_EACH].split()) for text in islice(texts, OF_ALL // OF_EACH))


def _words(texts: Iterable[str]) -> set[str]:
    return {word for text in texts for word in WORD.findall(text.lower())}


def _language(text: str) -> str:
    scores = _scores(text)
    return max(scores, key=scores.__getitem__)


def _scores(text: str) -> dict[str, float]:
    """Return the log-likelihood of each language, up to a constant."""
    return dict(_identifier().rank(text))


@lru_cache(maxsize=1)
def _identifier() -> Any:
    # Loading the model takes 0.1 s.
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_pickled_model(MODEL_FILE)
    identifier.set_languages([*NAMES])
    return identifier
