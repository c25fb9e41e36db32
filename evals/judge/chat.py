"""Any LangChain chat model by `provider:model`, asked for one answer at a time without retries of its own.

All questions of a run go over one event loop: ChatCohere keeps an HTTP client that belongs to the first loop it meets.
"""

import hashlib
import json
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import BaseModel
from pydantic.warnings import PydanticDeprecationWarning

from evals.config.judge import JudgeConfig
from evals.errors import JudgeError
from evals.judge.answers import Answer, read_early_end, read_message
from evals.judge.faults import explain
from retrievers.config.layers import api_key
from retrievers.errors import nearest

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

# Providers and the variable that holds their key; LangChain's `init_chat_model` knows how to build each.
KEYS: Mapping[str, str] = {
    "cohere": "COHERE_API_KEY",
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "mistralai": "MISTRAL_API_KEY",
    "google_genai": "GOOGLE_API_KEY",
    "groq": "GROQ_API_KEY",
    "deepseek": "DEEPSEEK_API_KEY",
    "xai": "XAI_API_KEY",
    "together": "TOGETHER_API_KEY",
    "fireworks": "FIREWORKS_API_KEY",
    "openrouter": "OPENROUTER_API_KEY",
    "perplexity": "PPLX_API_KEY",
    "nvidia": "NVIDIA_API_KEY",
    "ollama": "",
}
# Providers for whose package the project has an extra; LangChain would fall back to an older class without it.
EXTRAS = ("anthropic", "ollama")
KEY_ARGUMENTS: Mapping[str, str] = {"cohere": "cohere_api_key"}
# Sent where a provider takes one.
SEED = 0
# Names of parameters that do not affect a model's answers, or that may not be stored.
SECRET = re.compile(r"(api_?key|secret|password|credentials?|authorization|headers?|(?<!_)token)$", re.IGNORECASE)
# Names of a model's fields that hold an address, for any provider.
ADDRESS = re.compile(r"(base_url|api_base|api_url|endpoint|host)$")
# Attributes under which LangChain's classes and the providers' libraries keep their HTTP clients, at most three deep.
CLIENTS, DEPTH = ("root_client", "client", "_client"), 3


@dataclass(frozen=True, kw_only=True)
class Chat:
    """A chat model ready to be asked.

    Attributes:
        provider: Such as `cohere`.
        name: Name of the model, as the provider spells it.
        parameters: Everything besides model, prompt and schema that the answer depends on.
        identified: True if they tell this model from any other; if not, its verdicts may not be stored.
    """

    provider: str
    name: str
    parameters: Mapping[str, Any]
    model: "BaseChatModel"
    arguments: Mapping[str, Any] = field(default_factory=dict)
    identified: bool = True

    @property
    def label(self) -> str:
        """`provider:name`."""
        return f"{self.provider}:{self.name}"

    async def ask(self, prompt: str, schema: type[BaseModel], *, structured: bool) -> Answer:
        """Send one prompt, once, and wait for the whole answer.

        Args:
            prompt: The whole prompt.
            schema: Response schema.
            structured: True to ask for JSON of it by the provider's own option, where it has one.

        Raises:
            Exception: Any error of the provider's library; see `evals.judge.faults`.
        """
        option = json_option(self.provider, schema) if structured else {}
        try:
            message = await self.model.ainvoke(prompt, **self.arguments, **option)
        except Exception as error:
            ended = read_early_end(error)
            if ended is None:
                raise
            return ended
        return read_message(message)

    def key(self, prompt: str, schema: type[BaseModel]) -> bytes:
        """Return the key of a verdict, 32 bytes: a hash of everything that the answer depends on."""
        parts = [self.provider, self.name, dict(self.parameters), prompt, _sorted_schema(schema), _ragas()]
        whole = json.dumps(parts, sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).digest()


def json_option(provider: str, schema: type[BaseModel]) -> dict[str, Any]:
    """Return the arguments by which a provider answers in JSON of a schema; none where it has no such option."""
    # A copy for one request, which the client may change; its fields stay in their order.
    described = json.loads(_schema(schema))
    if provider == "cohere":
        return {"response_format": {"type": "json_object", "schema": described}}
    if provider == "openai":
        form = {"name": schema.__name__, "schema": described}
        return {"response_format": {"type": "json_schema", "json_schema": form}}
    return {"format": described} if provider == "ollama" else {}


@cache
def _ragas() -> str:
    return version("ragas")


@cache
def _schema(schema: type[BaseModel]) -> str:
    return json.dumps(schema.model_json_schema())


@cache
def _sorted_schema(schema: type[BaseModel]) -> str:
    return json.dumps(schema.model_json_schema(), sort_keys=True)


def make_chat(config: JudgeConfig, env: Mapping[str, str]) -> Chat:
    """Build the model that the settings name.

    Raises:
        JudgeError: The provider is unknown or not installed, its key is missing, or the user's function fails.
    """
    # langchain-cohere uses deprecated calls of pydantic, which its users cannot change.
    warnings.filterwarnings("ignore", category=PydanticDeprecationWarning, module=r"(langchain_)?cohere\.")
    # Of counts that are no integers, which are estimated here.
    warnings.filterwarnings("ignore", message="Pydantic serializer warnings")
    if config.provider == "python":
        return _chat(config, _from_python(config.name))
    if config.provider not in KEYS:
        suggestion = nearest(config.provider, [*KEYS, "python"])
        raise JudgeError(
            f"judge.model {config.model!r}: unknown provider {config.provider!r}{suggestion}; expected one of "
            f"{', '.join(KEYS)}, or python:module:factory for a LangChain chat model of your own"
        )
    if config.provider in EXTRAS and find_spec(f"langchain_{config.provider}") is None:
        raise JudgeError(
            f"judge.model {config.model!r} needs a package that is not installed: "
            f"pip install 'retrieval-evals[{config.provider}]'"
        )
    from langchain.chat_models import init_chat_model

    settings = _construction(config, env)
    try:
        # Building sends no request, so a wrong key or address shows only at the first call.
        model = init_chat_model(config.name, model_provider=config.provider, **settings)
    except ImportError as error:
        raise JudgeError(f"judge.model {config.model!r} needs a package that is not installed: {error}") from error
    except Exception as error:  # each provider checks its arguments in its own way
        raise JudgeError(f"judge.model {config.model!r} cannot be built: {explain(error)}") from error
    return _chat(config, model)


def _construction(config: JudgeConfig, env: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of the model's class: key, address, timeout, and its own retries switched off."""
    key_env = config.api_key_env or KEYS[config.provider]
    key = api_key(env, key_env) if key_env else None
    if key_env and not key and not (config.provider == "openai" and config.base_url):
        raise JudgeError(
            f"judge.model {config.model!r} needs an API key: expected it in {key_env}, which is not set; "
            "export it or write it into .env, or name another variable with judge.api_key_env"
        )
    arguments: dict[str, Any] = {} if config.temperature is None else {"temperature": config.temperature}
    if key_env:
        # A local server asks for no key.
        arguments[KEY_ARGUMENTS.get(config.provider, "api_key")] = key or "none"
    if config.base_url:
        arguments["base_url"] = config.base_url
    if config.provider == "cohere":
        return arguments | {"timeout_seconds": config.timeout_s}
    if config.provider == "ollama":
        limits = {"client_kwargs": {"timeout": config.timeout_s}, "num_predict": config.max_output_tokens}
        return arguments | limits | {"seed": SEED}
    # LangChain's classes of other providers refuse an unknown argument.
    seeds = {"openai", "deepseek", "openrouter"}
    return (
        arguments
        | {"timeout": config.timeout_s, "max_retries": 0, "max_tokens": config.max_output_tokens}
        | ({"seed": SEED} if config.provider in seeds else {})
    )


def _chat(config: JudgeConfig, model: "BaseChatModel") -> Chat:
    identified = identity(model)
    parameters = {
        "temperature": config.temperature,
        "seed": SEED,
        "max_output_tokens": config.max_output_tokens,
        "base_url": config.base_url,
        "structured": "auto",
        "identity": None,
        "model": identified,
    }
    arguments: dict[str, Any] = {}
    if config.provider == "cohere":
        limits = {"max_retries": 0, "timeout_in_seconds": config.timeout_s}
        arguments = {"max_tokens": config.max_output_tokens, "seed": SEED, "request_options": limits}
    return Chat(
        provider=config.provider,
        name=config.name,
        parameters=parameters,
        model=model,
        arguments=arguments,
        identified=identified is not None,
    )


def identity(model: "BaseChatModel") -> Mapping[str, str] | None:
    """Return class, addresses and a digest of the parameters of a model; None when it hides its parameters.

    The parameters that LangChain's classes report hold no address. The addresses are those that requests go to, also
    where the environment named them.
    """
    try:
        parameters = json.dumps(_without_secrets(model._identifying_params), sort_keys=True)
    except TypeError:  # an object that has no value of its own
        return None
    if parameters == "{}":
        return None
    kind = type(model)
    return {
        "class": f"{kind.__module__}.{kind.__qualname__}",
        "address": " ".join(sorted(set(_addresses(model)))),
        "digest": hashlib.sha256(parameters.encode("utf-8", "surrogatepass")).hexdigest()[:32],
    }


def _without_secrets(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _without_secrets(item) for name, item in value.items() if not SECRET.search(str(name))}
    return [_without_secrets(item) for item in value] if isinstance(value, list | tuple) else value


def _addresses(model: "BaseChatModel") -> Iterator[str]:
    fields = (getattr(model, name, None) for name in type(model).model_fields if ADDRESS.search(name))
    yield from (_bare(value) for value in fields if isinstance(value, str))
    holders: list[Any] = [model]
    for _ in range(DEPTH):
        holders = [
            inner for holder in holders for name in CLIENTS if (inner := getattr(holder, name, None)) is not None
        ]
        urls = [_bare(str(url)) for holder in holders if (url := getattr(holder, "base_url", None))]
        # A provider's client; the parameters inside of it belong to HTTP.
        if urls:
            yield from urls
            return


def _bare(url: str) -> str:
    """Remove the parts of an address that may be secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")


def _from_python(target: str) -> "BaseChatModel":
    from langchain_core.language_models import BaseChatModel

    module, _, name = target.partition(":")
    try:
        built = getattr(import_module(module), name)()
    except Exception as error:  # the user's own code may raise anything
        raise JudgeError(f"judge.model 'python:{target}' cannot be loaded: {explain(error)}") from error
    if not isinstance(built, BaseChatModel):
        raise JudgeError(
            f"judge.model 'python:{target}': expected a LangChain chat model (BaseChatModel), "
            f"got {type(built).__name__}"
        )
    return built
