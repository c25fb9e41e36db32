"""Count tokens with the tokenizer of the packaged embedding model. Nothing is downloaded."""

import re
from functools import lru_cache
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# Most characters of a text, and of a word, that the tokenizer gets at once.
PART, LONGEST_WORD = 10_000, 10_000
WORD_START = re.compile(r"(?<=\S) (?=\S)")


def model_folder() -> Path:
    """Return the folder of wordllama without importing it."""
    return Path(str(distribution("wordllama").locate_file("wordllama")))


@lru_cache(maxsize=1)
def tokenizer() -> "Tokenizer":
    """Return the Llama 2 tokenizer inside wordllama, without padding and truncation."""
    from tokenizers import Tokenizer

    file = next(model_folder().glob("tokenizer*/l2_supercat_tokenizer_config.json"))
    loaded = Tokenizer.from_file(str(file))
    loaded.no_padding()
    loaded.no_truncation()
    return loaded


def count_tokens(text: str) -> int:
    """Count the tokens of `text`, without begin and end marks."""
    return sum(len(tokenizer().encode(part, add_special_tokens=False).ids) for part in token_parts(text))


def token_parts(text: str) -> list[str]:
    """Cut a text into parts that have the same tokens: the tokenizer takes 3 KB of memory for each character.

    A cut is at a blank between two words, where a token begins. Words longer than `LONGEST_WORD` are cut as well, and
    may get other tokens.
    """
    parts, start = list[str](), 0
    while len(text) - start > PART:
        blank = WORD_START.search(text, start + PART, start + PART + LONGEST_WORD)
        end = blank.start() if blank else start + PART + LONGEST_WORD
        parts.append(text[start:end])
        start = blank.end() if blank else end
    return [*parts, text[start:]]
