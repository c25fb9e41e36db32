"""The models of embedding and reranking."""

import re
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from retrievers.config.provider import Provider
from retrievers.config.providers import (
    CROSS_ENCODER_PROVIDERS,
    EMBEDDING_PROVIDERS,
    CrossEncoderProviderName,
    EmbeddingProviderName,
)
from retrievers.config.running_options import of_the_model
from retrievers.config.settings import TABLE, Settings, UnshownError, VariableName, address

# Names of arguments that may not stand in a file.
SECRET = re.compile(r"(key|secret|password|credentials?|token|headers?)$", re.IGNORECASE)


class ModelConfig(Settings):
    """A model of some provider, also as `model: "provider:model"`; `python` loads one from `module:factory`."""

    providers: ClassVar[Mapping[str, Provider]] = {}
    provider: str = Field("python", description="whose model")
    model: str | None = Field(None, description="model name; for python `module:factory`")
    base_url: str | None = Field(None, description="address of the provider's API, if not its own")
    api_key_env: VariableName = Field(
        "COHERE_API_KEY", description="environment variable that holds the provider's API key"
    )

    @model_validator(mode="before")
    @classmethod
    def _of_provider(cls, values: Any) -> Any:
        """Split `provider:model`, and fill in the provider's variable of the key."""
        if not isinstance(values, Mapping):
            return values
        values = {**values, **split(values, cls.providers)}
        declared = cls.providers.get(str(values.get("provider")))
        return {"api_key_env": declared.key_env, **values} if declared and declared.key_env else values

    @field_validator("base_url")
    @classmethod
    def _url_without_secrets(cls, url: str | None, info: ValidationInfo) -> str | None:
        declared = cls.providers.get(info.data.get("provider", ""))
        hosted = declared if declared and declared.hosted else cls.providers["cohere"]
        return None if url is None else address(url, hosted.address, hosted.key_env or "")

    @model_validator(mode="after")
    def _model_of_provider(self) -> Self:
        try:
            self.declared.model(self.model)
        except ValueError as error:
            raise ValueError(f"provider {self.provider!r} {error}") from None
        return self

    @property
    def declared(self) -> Provider:
        """The declaration of the provider."""
        return self.providers[self.provider]

    @property
    def resolved_model(self) -> str:
        """The model's name, with the provider's default filled in."""
        return self.declared.model(self.model)

    @property
    def label(self) -> str:
        """Provider and model, as `provider:model`."""
        return f"{self.provider}:{self.resolved_model}"


class EmbeddingConfig(ModelConfig):
    """Model that turns text into vectors.

    `wordllama` is packaged and needs no key or network; `python` loads any LangChain `Embeddings`.

    Attributes:
        dimensions: Length of the vectors, where the provider can shorten them.
        query_prefix: Text that the model expects before a query, such as `query: `. Where a sentence-transformers model
            brings prompts of its own, they are used unless a prefix is set, be it an empty one.
        document_prefix: The same before a text that is stored.
        options: Further arguments of the provider's LangChain class.
    """

    providers: ClassVar[Mapping[str, Provider]] = EMBEDDING_PROVIDERS
    provider: EmbeddingProviderName = Field("wordllama", description="who embeds")
    dimensions: int | None = Field(None, ge=1, description="length of the vectors, where the provider can shorten them")
    query_prefix: str | None = Field(None, description="text before a query, such as 'query: '")
    document_prefix: str | None = Field(None, description="text before a text to store, such as 'passage: '")
    options: Mapping[str, Any] = Field(
        default_factory=dict, description="further arguments of the provider's class", json_schema_extra=TABLE
    )

    @field_validator("options")
    @classmethod
    def _no_secrets(cls, options: Mapping[str, Any]) -> Mapping[str, Any]:
        for name in options:
            if SECRET.search(name):
                raise UnshownError(f"{name} belongs into an environment variable, which api_key_env names")
        return options

    @model_validator(mode="after")
    def _taken_by_provider(self) -> Self:
        if self.options and not self.declared.takes_options:
            raise ValueError(f"options cannot be set for provider {self.provider!r}")
        if self.dimensions and not self.declared.takes_dimensions:
            can = ", ".join(name for name, provider in self.providers.items() if provider.takes_dimensions)
            raise ValueError(f"dimensions cannot be set for provider {self.provider!r}, only for {can}")
        return self

    @property
    def identity(self) -> dict[str, Any]:
        """What decides which vector a text gets: provider and model, and what else is set of these."""
        settings = ("dimensions", "query_prefix", "document_prefix")
        chosen = {name: getattr(self, name) for name in settings} | {"options": of_the_model(self.options)}
        return {
            "provider": self.provider,
            "model": self.resolved_model,
            **{name: value for name, value in chosen.items() if value not in (None, {})},
        }


class CrossEncoderConfig(ModelConfig):
    """Cross-encoder that reranks: Cohere Rerank, a local sentence-transformers model, or any of the user's.

    `python` loads a LangChain document compressor, or an object with `score(pairs)`.
    """

    providers: ClassVar[Mapping[str, Provider]] = CROSS_ENCODER_PROVIDERS
    provider: CrossEncoderProviderName = Field("cohere", description="who reranks")


def split(values: Mapping[str, Any], providers: Mapping[str, Provider]) -> dict[str, str]:
    """Return provider and model from `model: "provider:model"`, nothing where the model is named without its provider.

    Raises:
        ValueError: `provider` names another one.
    """
    model, separate = values.get("model"), values.get("provider")
    if not isinstance(model, str) or separate == "python":
        return {}
    provider, colon, name = model.partition(":")
    # The names of some models have a colon too.
    if not colon or (separate is not None and provider not in providers):
        return {}
    if separate not in (None, provider):
        raise ValueError(
            f"model {model!r} is of provider {provider!r}, but provider is {separate!r}; leave one of them out"
        )
    return {"provider": provider, "model": name}
