"""Which models embed and rerank."""

from collections.abc import Mapping
from typing import ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from retrievers.config.base import Settings, VariableName, address


class ModelConfig(Settings):
    """A model of some provider; `python` loads one of the user's from `module:factory` given as `model`."""

    default_models: ClassVar[Mapping[str, str]] = {}
    provider: str = Field("python", description="whose model")
    model: str | None = Field(None, description="model name; for python `module:factory`")
    base_url: str | None = Field(None, description="address of the provider's API, if not its own")
    api_key_env: VariableName = Field(
        "COHERE_API_KEY", description="environment variable that holds the provider's API key"
    )
    timeout_s: float = Field(30.0, gt=0, le=3600, description="seconds one request to the model may take")

    @field_validator("base_url")
    @classmethod
    def _url_without_secrets(cls, url: str | None) -> str | None:
        return None if url is None else address(url, "https://api.cohere.com", "COHERE_API_KEY")

    @model_validator(mode="after")
    def _model_for_python(self) -> Self:
        if self.provider == "python" and ":" not in (self.model or ""):
            raise ValueError(f"provider 'python' needs model: 'module:factory', got {self.model!r}")
        return self

    @property
    def resolved_model(self) -> str:
        """The model's name, with the provider's default filled in."""
        return self.model or self.default_models[self.provider]


class EmbeddingConfig(ModelConfig):
    """Which model turns text into vectors.

    `wordllama` is packaged and needs no key or network; `cohere` calls Cohere through langchain-cohere;
    `python` loads any LangChain `Embeddings`.
    """

    default_models: ClassVar[Mapping[str, str]] = {"wordllama": "l2_supercat_256", "cohere": "embed-english-v3.0"}
    provider: Literal["wordllama", "cohere", "python"] = Field("wordllama", description="who embeds")


class CrossEncoderConfig(ModelConfig):
    """Which cross-encoder reranks: Cohere Rerank, a local sentence-transformers model, or any of the user's.

    `python` loads a LangChain document compressor, or an object with `score(pairs)`.
    """

    default_models: ClassVar[Mapping[str, str]] = {
        "cohere": "rerank-v3.5",
        "sentence-transformers": "cross-encoder/ms-marco-MiniLM-L6-v2",
    }
    provider: Literal["cohere", "sentence-transformers", "python"] = Field("cohere", description="who reranks")
