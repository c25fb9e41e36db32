"""The models of embedding and reranking: whose they are, and what decides which vector a text gets."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from typing import Annotated, Any, ClassVar, Self

import yaml
from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from retrievers.config.settings import Settings, UnshownError, address, one_of, table

# Names of arguments that may not stand in a file.
SECRET = re.compile(r"(key|secret|password|credentials?|token|headers?)$", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Provider:
    """Declaration of a provider.

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


_address = partial(address, example="https://api.example.com", key="the provider's environment variable")
ProviderAddress = Annotated[str, AfterValidator(_address)]


def _providers(kind: str) -> Mapping[str, Provider]:
    tables = yaml.safe_load(files("retrievers.config").joinpath("providers.yaml").read_text(encoding="utf-8"))
    return {name: Provider(**declared) for name, declared in tables[kind].items()}


EMBEDDING_PROVIDERS = _providers("embedding")
CROSS_ENCODER_PROVIDERS = _providers("cross_encoder")


class ModelConfig(Settings):
    """A model of some provider, also as `model: "provider:model"`; `python` loads one from `module:factory`."""

    providers: ClassVar[Mapping[str, Provider]] = {}
    provider: str = Field("python", description="whose model")
    model: str | None = Field(None, description="model name; for python `module:factory`")
    base_url: ProviderAddress | None = Field(None, description="address of the provider's API, if not its own")

    @model_validator(mode="before")
    @classmethod
    def _of_provider(cls, values: Any) -> Any:
        """Split `provider:model`. The names of some models have a colon too."""
        model, provider = (values.get("model"), values.get("provider")) if isinstance(values, Mapping) else (None, None)
        named, colon, rest = model.partition(":") if isinstance(model, str) else ("", "", "")
        if not colon or provider == "python" or (provider is not None and named not in cls.providers):
            return values
        if provider not in (None, named):
            raise ValueError(f"model {model!r} is not of provider {provider!r}; leave one of them out")
        return {**values, "provider": named, "model": rest}

    @model_validator(mode="after")
    def _model_of_provider(self) -> Self:
        model, default = self.resolved_model, self.declared.default_model
        is_other = self.provider == "wordllama" and model != default
        if not model or is_other or (self.provider == "python" and ":" not in model):
            # A name without its provider would be taken for another name of the packaged model.
            needs = {"python": "module:factory", "wordllama": f"{default}, or write model: PROVIDER:NAME"}
            expected = needs.get(self.provider, "the name of one, as it has no default")
            raise ValueError(f"provider {self.provider!r} needs model: {expected}, got {self.model!r}")
        return self

    @property
    def declared(self) -> Provider:
        """The declaration of the provider."""
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
    provider: Annotated[str, one_of(EMBEDDING_PROVIDERS)] = Field("wordllama", description="who embeds")
    dimensions: int | None = Field(None, ge=1, description="length of the vectors, where the provider can shorten them")
    query_prefix: str | None = Field(None, description="text before a query, such as 'query: '")
    document_prefix: str | None = Field(None, description="text before a text to store, such as 'passage: '")
    options: Mapping[str, Any] = table("further arguments of the provider's class")

    @field_validator("options")
    @classmethod
    def _taken(cls, options: Mapping[str, Any], info: ValidationInfo) -> Mapping[str, Any]:
        if secret := next(filter(SECRET.search, options), None):
            raise UnshownError(f"{secret} belongs into the provider's environment variable")
        if options and (own := info.data.get("provider")) in ("wordllama", "python"):
            raise ValueError(f"options cannot be set for provider {own!r}, which takes no arguments")
        return options

    @property
    def identity(self) -> dict[str, Any]:
        """The model as a collection records it: provider and model, and length and prefixes where they are set."""
        chosen = {name: getattr(self, name) for name in ("dimensions", "query_prefix", "document_prefix")}
        named = {name: value for name, value in chosen.items() if value is not None}
        return {"provider": self.provider, "model": self.resolved_model, **named}


class CrossEncoderConfig(ModelConfig):
    """Cross-encoder that reranks: Cohere Rerank, a local sentence-transformers model, or any of the user's.

    `python` loads a LangChain document compressor, or an object with `score(pairs)`.
    """

    providers: ClassVar[Mapping[str, Provider]] = CROSS_ENCODER_PROVIDERS
    provider: Annotated[str, one_of(CROSS_ENCODER_PROVIDERS)] = Field("cohere", description="who reranks")
