"""The packages of providers, which are extras of this project."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from retrievers.config import EmbeddingConfig
from retrievers.errors import ConfigError


@contextmanager
def needed(config: EmbeddingConfig) -> Iterator[None]:
    """Import in the block what a provider's models need.

    Raises:
        ConfigError: It is not installed; the message says how to.
    """
    declared = config.declared
    needs = f"embedding.model {config.label!r} needs a package that is not installed"
    if declared.module and find_spec(declared.module) is None:
        raise ConfigError(f"{needs} ({declared.module.replace('_', '-')}): {declared.installation}")
    try:
        yield
    except ImportError as error:
        raise ConfigError(f"{needs} ({error}){': ' * bool(declared.extra)}{declared.installation}") from error
