"""The language of a query beside that of texts, by py3langid: nothing is downloaded."""

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
import yaml
from numpy.typing import NDArray

# Log-likelihood ratio of two languages for a query. Of 434 English queries and 24 lines of code one is above, of 52
# queries in other languages one below.
LEAST_MARGIN = 7.0
# Words of a query in Latin letters from which on its language is told: fewer are names, terms and short forms, such as
# `o2`. Other letters tell by themselves.
LEAST_WORDS, LATIN = 8, 0x250
# Characters of each text, of all of them, and the least that tell a language.
OF_EACH, OF_ALL, LEAST_CHARACTERS = 200, 600, 120
WORD = re.compile(r"[^\W\d_]+")


@cache
def names() -> dict[str, str]:
    """Return the languages that are detected, by code."""
    return dict(yaml.safe_load(files("retrievers.text").joinpath("languages.yaml").read_text(encoding="utf-8")))


class Languages(NamedTuple):
    """The language of a query and that of what was found, which differ."""

    asked: str
    found: str


def differing(query: str, texts: Sequence[str]) -> Languages | None:
    """Return the languages of a query and of what was found for it; None where they are one, or nobody can tell.

    Of fewer than eight words in Latin letters nobody can.

    Args:
        query: The query.
        texts: What was found for it, the best first.
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
    """Return the log-likelihood of each language, up to a constant; those of several texts add up."""
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
