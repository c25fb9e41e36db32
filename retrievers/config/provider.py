"""The declaration of a provider of models."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

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
        key_for_own_server: A server named by `base_url` needs a key too.
        hosted: Its models run on a server, so that query vectors are worth keeping; None where that is not known.
        request_texts: Most texts of one embedding request: what fails is then all that is asked for again.
        dimensions: Length of the vectors of its best-known models, to the words that name the model in messages.
        packages: Distributions whose versions a report names.
        extra: The extra of this project that installs them; empty where the plain install does.
        module: The module that has to be importable where there is an extra.
        alike: It embeds a query as it embeds a text, so that queries can be embedded in batches.
        takes_options: Its class is LangChain's or FastEmbed's own, and takes further arguments.
        takes_dimensions: Its vectors can be made shorter.
        max_tokens: Most tokens of one text; what follows is cut. None where the provider cuts by itself.
    """

    make: Make
    default_model: str | None = None
    model_is_factory: bool = False
    title: str = ""
    key_env: str | None = None
    key_for_own_server: bool = True
    address: str = "https://api.example.com"
    hosted: bool | None = None
    request_texts: int = 96
    dimensions: Mapping[int, str] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    extra: str = ""
    module: str = ""
    alike: bool = False
    takes_options: bool = True
    takes_dimensions: bool = False
    max_tokens: int | None = None

    @property
    def installation(self) -> str:
        """The command that installs what it needs; empty where that is there with the project."""
        return f"pip install 'retrieval-evals[{self.extra}]'" if self.extra else ""

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
