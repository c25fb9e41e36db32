"""Counting tokens with the tokenizer of the packaged embedding model (no download)."""

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer


def package_folder(name: str) -> Path:
    """Return the folder of an installed package, without importing it.

    Raises:
        ModuleNotFoundError: It is not installed.
    """
    from importlib.util import find_spec

    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"package {name!r} is not installed")
    return Path(spec.submodule_search_locations[0])


@lru_cache(maxsize=1)
def tokenizer() -> "Tokenizer":
    """Return the Llama 2 tokenizer inside wordllama, without padding and truncation."""
    from tokenizers import Tokenizer

    file = next(package_folder("wordllama").glob("tokenizer*/l2_supercat_tokenizer_config.json"))
    loaded = Tokenizer.from_file(str(file))
    loaded.no_padding()
    loaded.no_truncation()
    return loaded


def count_tokens(text: str) -> int:
    """Count the tokens of `text`, without begin and end marks."""
    return len(tokenizer().encode(text, add_special_tokens=False).ids)
