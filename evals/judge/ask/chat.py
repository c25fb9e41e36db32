"""Any LangChain chat model by `provider:model`, asked for one answer at a time without retries of its own.

Models are called synchronously from threads: ChatCohere keeps one asynchronous HTTP client that belongs to the first
event loop, and a second loop would fail with it.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from pydantic.warnings import PydanticDeprecationWarning

from evals.config.judge import JudgeConfig
from evals.errors import JudgeError
from evals.judge.ask.answers import ModelAnswer, read_early_end, read_message
from evals.judge.ask.faults import explain
from evals.judge.ask.identity import identity
from evals.judge.ask.response_schemas import STRUCTURES
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


@dataclass(frozen=True, kw_only=True)
class Chat:
    """A chat model ready to be asked.

    Attributes:
        provider: Such as `cohere`.
        name: Name of the model, as the provider spells it.
        parameters: Everything besides model, prompt and schema that the answer depends on.
        identified: True if they tell this model from any other; if not, its verdicts may not be stored.
        structure: Schema to the arguments that make the provider answer in JSON; empty when it has no such means.
    """

    provider: str
    name: str
    parameters: Mapping[str, Any]
    model: "BaseChatModel"
    structure: Callable[[type[BaseModel]], Mapping[str, Any]]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    per_request: Callable[[float], Mapping[str, Any]] = lambda timeout_s: {}
    identified: bool = True

    def ask(self, prompt: str, schema: type[BaseModel], timeout_s: float, *, structured: bool) -> ModelAnswer:
        """Send one prompt, once, and wait for the whole answer.

        Args:
            prompt: The whole prompt.
            schema: Response schema; sent along where `structured`.
            timeout_s: Seconds to wait, where the provider lets a single request say so.
            structured: True to ask for JSON by the provider's own option.

        Raises:
            Exception: Any error of the provider's library; see `evals.judge.ask.faults`.
        """
        extra = self.structure(schema) if structured else {}
        try:
            message = self.model.invoke(prompt, **self.arguments, **extra, **self.per_request(timeout_s))
        except Exception as error:
            ended = read_early_end(error)
            if ended is None:
                raise
            return ended
        return read_message(message)


def make_chat(config: JudgeConfig, env: Mapping[str, str]) -> Chat:
    """Build the model that the settings name.

    Raises:
        JudgeError: The provider is unknown or not installed, its key is missing, or the user's function fails.
    """
    # langchain-cohere uses deprecated calls of pydantic, which its users cannot change.
    warnings.filterwarnings("ignore", category=PydanticDeprecationWarning, module=r"(langchain_)?cohere\.")
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
        return arguments | limits | _given("seed", config.seed)
    # LangChain's classes of other providers refuse an unknown argument.
    seeds = {"openai", "deepseek", "openrouter"}
    return (
        arguments
        | {"timeout": config.timeout_s, "max_retries": 0, "max_tokens": config.max_output_tokens}
        | (_given("seed", config.seed) if config.provider in seeds else {})
    )


def _chat(config: JudgeConfig, model: "BaseChatModel") -> Chat:
    identified = identity(model)
    parameters = {
        "temperature": config.temperature,
        "seed": config.seed,
        "max_output_tokens": config.max_output_tokens,
        "base_url": config.base_url,
        "structured": config.structured,
        "identity": config.identity,
        "model": identified,
    }
    arguments: dict[str, Any] = {}
    per_request: Callable[[float], Mapping[str, Any]] = lambda timeout_s: {}  # noqa: E731
    if config.provider == "cohere":
        arguments = {"max_tokens": config.max_output_tokens, **_given("seed", config.seed)}
        per_request = lambda timeout_s: {  # noqa: E731
            "request_options": {"max_retries": 0, "timeout_in_seconds": timeout_s}
        }
    elif config.provider == "openai":
        per_request = lambda timeout_s: {"timeout": timeout_s}  # noqa: E731
    return Chat(
        provider=config.provider,
        name=config.name,
        parameters=parameters,
        model=model,
        structure=STRUCTURES.get(config.provider, lambda schema: {}),
        arguments=arguments,
        per_request=per_request,
        identified=identified is not None or config.identity is not None,
    )


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


def _given(name: str, value: Any) -> dict[str, Any]:
    return {} if value is None else {name: value}
