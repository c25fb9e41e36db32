"""Compare the language of a query with that of texts, by py3langid. Nothing is downloaded."""

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
import yaml
from numpy.typing import NDArray

# Log-likelihood ratio from which two languages of a query and of texts differ. 1 of 434 English queries and 24 lines of
# code is above it, and 1 of 52 queries in other languages is below it.
LEAST_MARGIN = 7.0
# Fewest words of a query in Latin letters whose language is identified: fewer words are names, terms and abbreviations,
# such as `o2`. Letters of other scripts identify a language by themselves.
LEAST_WORDS, LATIN = 8, 0x250
# Most characters of each text, most characters of all texts, and fewest characters whose language is identified.
OF_EACH, OF_ALL, LEAST_CHARACTERS = 200, 600, 120
WORD = re.compile(r"[^\W\d_]+")


@cache
def names() -> dict[str, str]:
    """Return the names of the languages that can be identified, by code."""
    return dict(yaml.safe_load(files("retrievers.text").joinpath("languages.yaml").read_text(encoding="utf-8")))


class Languages(NamedTuple):
    """The languages of a query and of the texts that were found for it."""

    asked: str
    found: str


def differing(query: str, texts: Sequence[str]) -> Languages | None:
    """Return the languages of a query and of its texts if they differ; None if they are the same or not identified.

    Args:
        query: The query. In Latin letters it needs at least eight words.
        texts: The texts that were found for it, the best first.
    """
    beginnings = [" ".join(text[:OF_EACH].split()) for text in texts[: OF_ALL // OF_EACH]]
    if sum(map(len, beginnings)) < LEAST_CHARACTERS or not WORD.search(query):
        return None
    if len(query.split()) < LEAST_WORDS and all(ord(character) < LATIN for character in query):
        return None
    of_query, of_texts = _likelihoods(query), sum(map(_kept_likelihoods, beginnings))
    asked, of_chunks = int(np.argmax(of_query)), int(np.argmax(of_texts))
    if of_query[asked] - of_query[of_chunks] < LEAST_MARGIN:
        return None
    codes = _identifier().nb_classes
    return Languages(names()[codes[asked]], names()[codes[of_chunks]])


def _likelihoods(text: str) -> NDArray[np.float32]:
    """Return the log-likelihood of each language, up to a constant. Those of several texts may be added."""
    identifier = _identifier()
    likelihoods: NDArray[np.float32] = identifier.nb_classprobs(identifier.instance2fv(text))
    return likelihoods


# The same chunks are found again and again.
_kept_likelihoods = lru_cache(maxsize=4_096)(_likelihoods)


@cache
def _identifier() -> Any:
    # Loading the model takes 0.1 s.
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_pickled_model(MODEL_FILE)
    identifier.set_languages([*names()])
    return identifier
