"""The models of embedding and reranking."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from retrievers.config.base import Settings, VariableName, address
from retrievers.config.providers import (
    CROSS_ENCODER_PROVIDERS,
    EMBEDDING_PROVIDERS,
    CrossEncoderProviderName,
    EmbeddingProviderName,
    Provider,
)


class ModelConfig(Settings):
    """A model of some provider; `python` loads one of the user's from `module:factory` given as `model`."""

    providers: ClassVar[Mapping[str, Provider]] = {}
    provider: str = Field("python", description="whose model")
    model: str | None = Field(None, description="model name; for python `module:factory`")
    base_url: str | None = Field(None, description="address of the provider's API, if not its own")
    api_key_env: VariableName = Field(
        "COHERE_API_KEY", description="environment variable that holds the provider's API key"
    )
    timeout_s: float = Field(30.0, gt=0, le=3600, description="seconds one request to the model may take")

    @model_validator(mode="before")
    @classmethod
    def _key_of_provider(cls, values: Any) -> Any:
        declared = cls.providers.get(str(values.get("provider"))) if isinstance(values, Mapping) else None
        return {"api_key_env": declared.key_env, **values} if declared and declared.key_env else values

    @field_validator("base_url")
    @classmethod
    def _url_without_secrets(cls, url: str | None, info: ValidationInfo) -> str | None:
        declared = cls.providers.get(info.data.get("provider", ""))
        hosted = declared if declared and declared.key_env else cls.providers["cohere"]
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

    `wordllama` is packaged and needs no key or network; `cohere` calls Cohere through langchain-cohere;
    `python` loads any LangChain `Embeddings`.
    """

    providers: ClassVar[Mapping[str, Provider]] = EMBEDDING_PROVIDERS
    provider: EmbeddingProviderName = Field("wordllama", description="who embeds")


class CrossEncoderConfig(ModelConfig):
    """Cross-encoder that reranks: Cohere Rerank, a local sentence-transformers model, or any of the user's.

    `python` loads a LangChain document compressor, or an object with `score(pairs)`.
    """

    providers: ClassVar[Mapping[str, Provider]] = CROSS_ENCODER_PROVIDERS
    provider: CrossEncoderProviderName = Field("cohere", description="who reranks")
