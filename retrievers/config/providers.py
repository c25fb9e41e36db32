"""The providers of embedding models and of cross-encoders, each declared once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from retrievers.config.registry import late, one_of

# Make a model from its `ModelConfig` and the API key, None where the provider declares none.
Make = Callable[[Any, str | None], Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Provider:
    """A declaration of a provider.

    Attributes:
        make: Makes a LangChain `Embeddings`, or of cross-encoders a LangChain document compressor or an object with
            `score(pairs)` or `predict(pairs)`. It imports its library when it is called.
        default_model: The model where the settings name none; None where they must.
        model_is_factory: The model is named as `module:factory`.
        title: Name in messages.
        key_env: Environment variable that holds the API key by default; None where there is no key.
        address: Address of its API, as an example in messages.
        hosted: Its models run on a server, so that failed requests are tried again and query vectors are worth keeping;
            None where that is not known.
        request_texts: Most texts of one embedding request: what fails is then all that is asked for again.
        dimensions: Length of the vectors of its best-known models, to the words that name the model in messages.
        packages: Distributions whose versions a report names.
    """

    make: Make
    default_model: str | None = None
    model_is_factory: bool = False
    title: str = ""
    key_env: str | None = None
    address: str = "https://api.example.com"
    hosted: bool | None = None
    request_texts: int = 96
    dimensions: Mapping[int, str] = field(default_factory=dict)
    packages: tuple[str, ...] = ()

    def model(self, named: str | None) -> str:
        """Return the model that the settings name, or the default.

        Raises:
            ValueError: They name none where there is no default, or one of another form.
        """
        model = named or self.default_model
        if self.model_is_factory and ":" not in (model or ""):
            raise ValueError(f"needs model: 'module:factory', got {named!r}")
        if model is None:
            raise ValueError(f"has no default model; name one as model, got {named!r}")
        return model


EMBEDDING_PROVIDERS: dict[str, Provider] = {
    "wordllama": Provider(
        make=late("retrievers.embedding.static:make"),
        default_model="l2_supercat_256",
        hosted=False,
        dimensions={256: "wordllama"},
        packages=("wordllama",),
    ),
    "cohere": Provider(
        make=late("retrievers.embedding.cohere:make"),
        default_model="embed-english-v3.0",
        title="Cohere",
        key_env="COHERE_API_KEY",
        address="https://api.cohere.com",
        hosted=True,
        request_texts=96,  # what Cohere takes in one request
        dimensions={1024: "cohere (embed-english-v3.0)"},
        packages=("langchain-cohere", "cohere"),
    ),
    "python": Provider(make=late("retrievers.embedding.models:from_python"), model_is_factory=True),
}

CROSS_ENCODER_PROVIDERS: dict[str, Provider] = {
    "cohere": Provider(
        make=late("retrievers.rerank.cross_encoder:of_cohere"),
        default_model="rerank-v3.5",
        title="Cohere Rerank",
        key_env="COHERE_API_KEY",
        address="https://api.cohere.com",
        hosted=True,
    ),
    "sentence-transformers": Provider(
        make=late("retrievers.rerank.cross_encoder:of_sentence_transformers"),
        default_model="cross-encoder/ms-marco-MiniLM-L6-v2",
        hosted=False,
    ),
    "python": Provider(make=late("retrievers.rerank.cross_encoder:from_python"), model_is_factory=True),
}

EmbeddingProviderName = Annotated[str, one_of(EMBEDDING_PROVIDERS)]
CrossEncoderProviderName = Annotated[str, one_of(CROSS_ENCODER_PROVIDERS)]
