"""The checks of a written query that need no model: each gives an objection, or None. Pure."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from evals.golden.evidence import normalise
from evals.golden.synthesis.prompts import DraftCase
from retrievers.records import Chunk
from retrievers.text.language import differing, surely_not

# Share of a query's stretches of four words that may stand in its passages: terms of the field have that many, too.
MOST_COPIED = 0.3
GRAM = 4
# A query is typed into a search field.
MOST_WORDS, MOST_CHARACTERS = 60, 400
# A shorter quote stands in many places.
LEAST_QUOTE = 15
# The scripts after it in Unicode put no space between words.
WORD = re.compile(r"[⺀-\uffff]|\w+")
# A gap that the writer was to fill in, as `[device_name]` or `<subject>`.
GAP = re.compile(r"[\[{<]\w*(?:name|type|subject|topic|query|question|passage|theme|value)\w*[\]}>]", re.IGNORECASE)
# Words that point at the page in front of the writer, which the reader of a query does not see, in seven languages.
POINTING = re.compile(
    r"""\b(?:
      (?:this|these|the\ (?:above|given|following|provided|present))\ (?:\w+\ )?
        (?:chapter|section|passage|page|paragraph|text|excerpt|article|table|figure|listing|snippet)s?
    | the\ (?:passages?|excerpt|author|quotes?)
    | (?:in|by|from|to|with|of)\ the\ (?:text|chapter|section|page|paragraph|document)(?!\w|\ (?:of|that|which|where)\b)
    | (?:mentioned|described|discussed|listed|shown|given)\ (?:above|below|here)
    | dies(?:e[mnrs]?)?\ (?:Kapitel|Abschnitte?s?|Seite|Textes|Texte?|Absatz(?:es)?|Passage|Tabelle|Abbildung)
    | (?:ce|cet|cette|ces)\ (?:chapitre|section|passage|page|texte|extrait|paragraphe|article|tableau|figure)s?
    | est[ae]\ (?:capítulo|sección|pasaje|página|texto|fragmento|párrafo|artículo|tabla|figura)
    | quest[oa]\ (?:capitolo|sezione|brano|pagina|testo|paragrafo|articolo|tabella|figura)
    | (?:n?est[ae]|dest[ae])\ (?:capítulo|seção|secção|trecho|página|texto|parágrafo|artigo|tabela|figura)
    | (?:dit|deze)\ (?:hoofdstuk|paragraaf|sectie|passage|pagina|tekst|alinea|tabel|afbeelding)
    )\b""",
    re.IGNORECASE | re.VERBOSE,
)


class Objection(NamedTuple):
    """Reason why a query cannot be used: its kind, a key of `KINDS`, and the particulars."""

    kind: str
    detail: str

    def __str__(self) -> str:
        return f"{KINDS[self.kind]}: {self.detail}" if self.detail else KINDS[self.kind]


# Kinds of objections, in the order in which they are checked.
KINDS = {
    "no passage": "the collection has no second section on the subject in the same split",
    "no answer": "the model gave no usable answer",
    "no query": "the query is empty, unfinished, or too long for a search field",
    "points": "the query points at a page that its reader does not see",
    "copies": "the query copies the passage",
    "quote": "a quote does not stand in the passage word for word",
    "language": "the query is in another language",
    "unsupported": "the reference answer does not follow from the quotes",
    "not standalone": "the query cannot be understood without the passage",
    "answered": "a passage of the collection answers the query, which should be out of scope",
    "unchecked": "the judge gave no usable verdict on it",
    "duplicate": "the query nearly repeats another one",
}


def first_objection(
    query: str, draft: DraftCase | None, passages: Sequence[Chunk], quoted: int, language: str
) -> Objection | None:
    """Return the first objection to a query that needs no model.

    Args:
        query: The query.
        draft: Query with answer and quotes; None for one out of scope.
        passages: Passages that the model was shown.
        quoted: Number of passages that quotes must come from.
        language: Name of the language that the query must be in; that of the passages where it is empty.
    """
    return (
        _length(query)
        or _pointing(query)
        or _copied(query, passages)
        or (_misquoted(draft, passages, quoted) if draft else None)
        or _foreign(f"{query}\n{draft.reference_answer}" if draft else query, passages, language)
    )


def holder(quote: str, passages: Sequence[Chunk]) -> Chunk | None:
    """Return the passage that holds a quote word for word, white space aside."""
    return next((chunk for chunk in passages if normalise(quote) in normalise(chunk.text)), None)


def copied_share(query: str, text: str) -> float:
    """Return the share of a query's stretches of four words that stand in a text, 0 to 1; 0 for fewer than four words.

    Case and punctuation are ignored; of scripts without spaces, each character is a word.
    """
    grams, in_text = list(_grams(query)), set(_grams(text))
    return sum(gram in in_text for gram in grams) / len(grams) if grams else 0.0


def _length(query: str) -> Objection | None:
    words = len(query.split())
    if not query.strip():
        return Objection("no query", "")
    if gap := GAP.search(query):
        return Objection("no query", f"it has a gap to be filled in, {gap[0]}")
    too_long = words > MOST_WORDS or len(query) > MOST_CHARACTERS
    return Objection("no query", f"{words} words, {len(query)} characters") if too_long else None


def _pointing(query: str) -> Objection | None:
    match = POINTING.search(query)
    return Objection("points", repr(match[0])) if match else None


def _copied(query: str, passages: Sequence[Chunk]) -> Objection | None:
    share = max(copied_share(query, chunk.text) for chunk in passages)
    return (
        Objection("copies", f"{share:.0%} of its stretches of four words stand in it") if share > MOST_COPIED else None
    )


def _misquoted(draft: DraftCase, passages: Sequence[Chunk], quoted: int) -> Objection | None:
    if not draft.reference_answer.strip():
        return Objection("unsupported", "there is none")
    if not draft.quotes:
        return Objection("quote", "there is none")
    for quote in draft.quotes:
        if holder(quote, passages) is None:
            return Objection("quote", repr(quote[:80]))
        if len(normalise(quote)) < LEAST_QUOTE:
            return Objection("quote", f"{quote!r} is too short to name one place")
    sources = {chunk.chunk_id for quote in draft.quotes if (chunk := holder(quote, passages))}
    return None if len(sources) >= quoted else Objection("quote", f"quotes of {quoted} passages are needed")


def _foreign(text: str, passages: Sequence[Chunk], language: str) -> Objection | None:
    if language:
        other = surely_not(language, text)
        return Objection("language", f"{other} in place of {language}") if other else None
    languages = differing(text, [chunk.text for chunk in passages])
    return Objection("language", f"{languages.asked} in place of {languages.found}") if languages else None


def _grams(text: str) -> Iterator[tuple[str, ...]]:
    words = WORD.findall(text.casefold())
    return (tuple(words[start : start + GRAM]) for start in range(len(words) - GRAM + 1))
