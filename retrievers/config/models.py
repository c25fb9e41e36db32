"""The settings of the models that embed and rerank, and the providers of these models."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field, field_validator

from retrievers.config.settings import Settings, UnshownError, address, field, table
from retrievers.errors import nearest

# The packaged model.
PACKAGED = "wordllama:l2_supercat_256"
# Names of arguments that are secrets, which may not stand in a file.
SECRET = re.compile(r"(key|secret|password|credentials?|token|headers?)$", re.IGNORECASE)
# Names of arguments that are addresses, which get the provider's key.
ADDRESS = re.compile(r"url|endpoint|host|proxy|proxies|api_base", re.IGNORECASE)


# The environment variable with the key of each provider whose models run on a server, so that their vectors are kept.
KEYS = {"cohere": "COHERE_API_KEY", "openai": "OPENAI_API_KEY"}
# Providers whose models run in this process. Where `python:` runs a model is not known.
LOCAL = frozenset({"wordllama", "huggingface", "sentence-transformers"})
_address = partial(address, example="https://api.example.com", key="the provider's environment variable")
ProviderAddress = Annotated[str, AfterValidator(_address)]


class ModelConfig(Settings):
    """A model, as `PROVIDER:NAME`. `python:module:factory` loads a model of the user's own."""

    providers: ClassVar[Sequence[str]] = ()
    model: str = Field(description="PROVIDER:NAME, or python:module:factory")
    base_url: ProviderAddress | None = field(None, "address of the provider's API, if not its own")

    @field_validator("model")
    @classmethod
    def _of_a_provider(cls, model: str) -> str:
        provider, _, name = model.partition(":")
        if provider not in cls.providers or not name:
            known = ", ".join(cls.providers)
            raise ValueError(f"expected PROVIDER:NAME of {known}{nearest(provider, cls.providers, limit=1)}")
        if provider == "python" and ":" not in name:
            raise ValueError("expected python:module:factory")
        if provider == "wordllama" and model != PACKAGED:
            raise ValueError(f"expected {PACKAGED}, the only one that is packaged")
        return model

    @property
    def provider(self) -> str:
        """The provider of the model."""
        return self.model.partition(":")[0]

    @property
    def resolved_model(self) -> str:
        """The model's name, without its provider."""
        return self.model.partition(":")[2]


class EmbeddingConfig(ModelConfig):
    """Model that turns text into vectors.

    `wordllama` is packaged and needs no key or network. `python:` loads any LangChain `Embeddings`.

    Attributes:
        query_prefix: Text that the model expects before a query, such as `query: `.
        document_prefix: Text that the model expects before a stored text, such as `passage: `.
        options: Further arguments of the provider's LangChain class.
    """

    providers: ClassVar[Sequence[str]] = ("wordllama", "cohere", "openai", "huggingface", "python")
    model: str = field(PACKAGED, "PROVIDER:NAME, or python:module:factory")
    query_prefix: str | None = field(None, "text before a query, such as 'query: '")
    document_prefix: str | None = field(None, "text before a text to store, such as 'passage: '")
    options: Mapping[str, Any] = table("further arguments of the provider's class")

    @field_validator("options")
    @classmethod
    def _taken(cls, options: Mapping[str, Any]) -> Mapping[str, Any]:
        if secret := next(filter(SECRET.search, options), None):
            raise UnshownError(f"{secret} belongs into the provider's environment variable")
        if address := next(filter(ADDRESS.search, options), None):
            raise UnshownError(f"{address} is an address; expected it in base_url, beside the options")
        return options

    @property
    def identity(self) -> dict[str, Any]:
        """The model as a collection records it: provider and name, and dimensions and prefixes if they are set."""
        prefixes = {"query_prefix": self.query_prefix, "document_prefix": self.document_prefix}
        chosen = {"dimensions": self.options.get("dimensions"), **prefixes}
        named = {name: value for name, value in chosen.items() if value is not None}
        return {"provider": self.provider, "model": self.resolved_model, **named}


class CrossEncoderConfig(ModelConfig):
    """Cross-encoder that reranks: Cohere Rerank, a local sentence-transformers model, or a model of the user's own.

    `python:` loads a LangChain document compressor, or an object with `score(pairs)`.
    """

    providers: ClassVar[Sequence[str]] = ("cohere", "sentence-transformers", "python")
    model: str = field("cohere:rerank-v3.5", "PROVIDER:NAME, or python:module:factory")
