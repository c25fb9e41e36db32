"""The models of embedding and reranking: whose they are, and what decides which vector a text gets."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from retrievers.config.settings import TABLE, Settings, UnshownError, VariableName, address, one_of

# Names of arguments that may not stand in a file.
SECRET = re.compile(r"(key|secret|password|credentials?|token|headers?)$", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Provider:
    """What the settings know of a provider.

    Attributes:
        default_model: Its model where they name none; without one they must.
        key_env: Environment variable of its API key; None where it has none, or its library finds it.
        title: Its name in messages, where that is not the model's.
        hosted: True if its models run on a server, so that vectors are worth keeping; None where that is not known.
    """

    default_model: str | None = None
    key_env: str | None = None
    title: str = ""
    hosted: bool | None = True


# Those of LangChain's `init_embeddings`, and two of our own.
EMBEDDING_PROVIDERS: Mapping[str, Provider] = {
    "wordllama": Provider(default_model="l2_supercat_256", hosted=False),
    "cohere": Provider(default_model="embed-english-v3.0", key_env="COHERE_API_KEY", title="Cohere"),
    "openai": Provider(default_model="text-embedding-3-small", key_env="OPENAI_API_KEY"),
    "azure_openai": Provider(key_env="AZURE_OPENAI_API_KEY"),
    "azure_ai": Provider(key_env="AZURE_AI_API_KEY"),
    "bedrock": Provider(),
    "google_genai": Provider(key_env="GOOGLE_API_KEY"),
    "google_vertexai": Provider(),
    "mistralai": Provider(default_model="mistral-embed", key_env="MISTRAL_API_KEY"),
    "ollama": Provider(),
    "huggingface": Provider(default_model="sentence-transformers/all-MiniLM-L6-v2", hosted=False),
    "python": Provider(hosted=None),
}
CROSS_ENCODER_PROVIDERS: Mapping[str, Provider] = {
    "cohere": Provider(default_model="rerank-v3.5", key_env="COHERE_API_KEY", title="Cohere Rerank"),
    "sentence-transformers": Provider(default_model="cross-encoder/ms-marco-MiniLM-L6-v2", hosted=False),
    "python": Provider(hosted=None),
}


def _any_other(nearest: str) -> str:
    return "" if nearest else " (python: any other LangChain Embeddings, by embedding.model python:MODULE:FACTORY)"


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
        declared = cls.providers.get(info.data.get("provider", ""), Provider())
        return (
            None
            if url is None
            else address(url, "https://api.example.com", declared.key_env or "that api_key_env names")
        )

    @model_validator(mode="after")
    def _model_of_provider(self) -> Self:
        model = self.model or self.declared.default_model
        if model is None or (self.provider == "python" and ":" not in model):
            expected = "module:factory" if self.provider == "python" else "the name of one, as it has no default"
            raise ValueError(f"provider {self.provider!r} needs model: {expected}, got {self.model!r}")
        return self

    @property
    def declared(self) -> Provider:
        """What is known of the provider."""
        return self.providers[self.provider]

    @property
    def resolved_model(self) -> str:
        """The model's name, with the provider's default filled in."""
        return self.model or self.declared.default_model or ""

    @property
    def label(self) -> str:
        """Provider and model, as `provider:model`."""
        return f"{self.provider}:{self.resolved_model}"


class EmbeddingConfig(ModelConfig):
    """Model that turns text into vectors.

    `wordllama` is packaged and needs no key or network; `python` loads any LangChain `Embeddings`.

    Attributes:
        dimensions: Length of the vectors, where the provider can shorten them.
        query_prefix: Text that the model expects before a query, such as `query: `.
        document_prefix: The same before a text that is stored.
        options: Further arguments of the provider's LangChain class.
    """

    providers: ClassVar[Mapping[str, Provider]] = EMBEDDING_PROVIDERS
    provider: Annotated[str, one_of(EMBEDDING_PROVIDERS, _any_other)] = Field("wordllama", description="who embeds")
    dimensions: int | None = Field(None, ge=1, description="length of the vectors, where the provider can shorten them")
    query_prefix: str | None = Field(None, description="text before a query, such as 'query: '")
    document_prefix: str | None = Field(None, description="text before a text to store, such as 'passage: '")
    options: Mapping[str, Any] = Field(
        default_factory=dict, description="further arguments of the provider's class", json_schema_extra=TABLE
    )

    @field_validator("options")
    @classmethod
    def _taken(cls, options: Mapping[str, Any], info: ValidationInfo) -> Mapping[str, Any]:
        if secret := next(filter(SECRET.search, options), None):
            raise UnshownError(f"{secret} belongs into an environment variable, which api_key_env names")
        if options and (own := info.data.get("provider")) in ("wordllama", "python"):
            raise ValueError(f"options cannot be set for provider {own!r}, which takes no arguments")
        return options

    @property
    def identity(self) -> dict[str, Any]:
        """What a collection records of its model: provider and model, and length and prefixes where they are set."""
        chosen = {name: getattr(self, name) for name in ("dimensions", "query_prefix", "document_prefix")}
        named = {name: value for name, value in chosen.items() if value is not None}
        return {"provider": self.provider, "model": self.resolved_model, **named}


class CrossEncoderConfig(ModelConfig):
    """Cross-encoder that reranks: Cohere Rerank, a local sentence-transformers model, or any of the user's.

    `python` loads a LangChain document compressor, or an object with `score(pairs)`.
    """

    providers: ClassVar[Mapping[str, Provider]] = CROSS_ENCODER_PROVIDERS
    provider: Annotated[str, one_of(CROSS_ENCODER_PROVIDERS)] = Field("cohere", description="who reranks")


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
