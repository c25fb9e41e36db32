"""Any LangChain chat model by `provider:model`, asked for one answer at a time without retries of its own.

Providers' libraries share no classes of errors: `read_fault` says what kind of fault a failed call is.
"""

import hashlib
import json
import os
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel
from pydantic.warnings import PydanticDeprecationWarning

from evals.config.judge import JudgeConfig
from evals.errors import JudgeError
from retrievers.config.layers import provider_key
from retrievers.config.settings import call_factory
from retrievers.errors import RetrievalError, nearest
from retrievers.net import (
    cause,
    causes,
    is_named,
    is_transient,
    retry_after_s,
    status_of,
    timed_out,
)

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage

# Provider to the variable that holds its key. LangChain's `init_chat_model` can build each of them.
KEYS: Mapping[str, str] = {
    "cohere": "COHERE_API_KEY", "openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY", "groq": "GROQ_API_KEY",
    "deepseek": "DEEPSEEK_API_KEY", "xai": "XAI_API_KEY", "together": "TOGETHER_API_KEY",
    "fireworks": "FIREWORKS_API_KEY", "openrouter": "OPENROUTER_API_KEY", "nvidia": "NVIDIA_API_KEY",
    "mistralai": "MISTRAL_API_KEY", "google_genai": "GOOGLE_API_KEY", "perplexity": "PPLX_API_KEY", "ollama": "",
}  # fmt: skip
# Providers whose package is an extra of this project. Without the package, LangChain would take an older class.
EXTRAS = ("anthropic", "ollama")
SEED = 0
# Providers whose class takes the argument `seed`. The other classes refuse an unknown argument.
SEEDED = ("openai", "deepseek", "openrouter")
# Ends of the environment variables by which a provider's client takes another address.
ADDRESSES = ("API_BASE", "API_URL", "BASE_URL", "ENDPOINT", "HOST")

# Kinds of calls without a verdict; see `Fault`.
Kind = Literal["malformed", "plain", "limited", "passing", "late", "refused", "prompt"]
# Status codes that may pass, besides those of `retrievers.net`. 529 is Anthropic's.
OVERLOADED = frozenset({408, 409, 425, 529})
UNSENT = frozenset({"ConnectError", "ConnectTimeout", "ConnectionRefusedError"})
# Errors that libraries raise for a reply that they cannot read, such as a proxy's page.
UNREADABLE = (ValueError, TypeError, AttributeError, LookupError, NameError, RecursionError)
NO_CREDIT = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
# Words of a server that takes no request for JSON, and words of a server that refuses one prompt alone.
OF_STRUCTURE = re.compile(r"response_format|json_schema|json_object|json mode|structured output", re.IGNORECASE)
OF_PROMPT = re.compile(
    r"context.?(length|window|size)|too (long|large|many tokens)|string_above_max_length|maximum .{0,40}(length|tokens)"
    r"|content.?(filter|policy|management)|moderation|flagged|safety|invalid_prompt",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class Chat:
    """A chat model ready to be asked.

    Attributes:
        provider: Name of the provider, such as `cohere`.
        name: Name of the model, as the provider spells it.
        parameters: Everything besides model, prompt and schema that the answer depends on.
        model: The model of LangChain.
        arguments: Arguments of each call of the model.
    """

    provider: str
    name: str
    parameters: Mapping[str, Any]
    model: "BaseChatModel"
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """`provider:name`."""
        return f"{self.provider}:{self.name}"

    async def ask(self, prompt: str, schema: type[BaseModel], *, structured: bool) -> "AIMessage":
        """Send one prompt, once, and wait for the whole answer.

        Args:
            prompt: The whole prompt.
            schema: Response schema.
            structured: True to request JSON of the schema, if the provider has an option for it.

        Raises:
            Exception: Any error of the provider's library; see `read_fault`.
        """
        option = json_option(self.provider, schema) if structured else {}
        return await self.model.ainvoke(prompt, **self.arguments, **option)

    def key(self, prompt: str, schema: type[BaseModel]) -> bytes:
        """Return the key of a verdict, 32 bytes: a hash of everything that the answer depends on."""
        facts = [self.provider, self.name, dict(self.parameters), prompt, *_schema_and_version(schema)]
        text = json.dumps(facts, sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A call without a verdict.

    Attributes:
        kind: `malformed`: the answer is no verdict. `plain`: the server refuses to write JSON. `limited`: it had too
            many requests. `late`: no answer came in time. `passing`: another trouble that may pass. `prompt`: this
            prompt was refused. `refused`: any request is refused.
        type: Name of the library's error, or `Timeout`, or `Prompt` if the server refused this very prompt.
        message: One line with status and remedy, without secrets.
        retry_after_s: Seconds that the server asked to wait; None if it named none.
        billed: True if the call may be billed: it was sent, and was not refused.
    """

    kind: Kind
    type: str
    message: str
    retry_after_s: float | None = None
    billed: bool = False


@cache
def json_option(provider: str, schema: type[BaseModel]) -> Mapping[str, Any]:
    """Return the arguments that make a provider answer in JSON of a schema; none if it has no such option."""
    json_schema = schema.model_json_schema()
    match provider:
        case "cohere":
            return {"response_format": {"type": "json_object", "schema": json_schema}}
        case "openai":
            form = {"type": "json_schema", "json_schema": {"name": schema.__name__, "schema": json_schema}}
            # Given as an argument, the client would parse the answer, and raise an error if it was cut off.
            return {"extra_body": {"response_format": form}}
        case "ollama":
            return {"format": json_schema}
    return {}


@cache
def _schema_and_version(schema: type[BaseModel]) -> tuple[str, str]:
    return json.dumps(schema.model_json_schema(), sort_keys=True), version("ragas")


def read_fault(error: Exception) -> Fault:
    """Classify an exception of a provider's library."""
    chain = list(causes(error))
    status = next(filter(None, map(status_of, chain)), 0)
    is_spent = any(getattr(link, "code", None) in NO_CREDIT for link in chain)
    late, passes = timed_out(error), is_transient(error) or status in OVERLOADED
    unreadable = status == 200 or (isinstance(error, UNREADABLE) and not (status or passes))
    kind: Kind = "refused"
    if late:
        kind = "late"
    elif status == 429:
        kind = "refused" if is_spent else "limited"
    elif status in (400, 415, 422, 501) and OF_STRUCTURE.search(str(error)):
        kind = "plain"
    elif status == 413 or (status in (400, 422) and OF_PROMPT.search(str(error))):
        kind = "prompt"
    elif passes or unreadable:  # an answer that cannot be read may be billed, as one that comes late
        kind = "passing" if passes else "late"
    return Fault(
        kind=kind,
        type="Timeout" if late else "Prompt" if status in (400, 413, 422) else type(error).__name__,
        message="the answer cannot be read: " * unreadable + cause(error, "judge") + "; raise judge.timeout_s" * late,
        retry_after_s=retry_after_s(error),
        billed=status in (0, 200) and not any(is_named(link, UNSENT) for link in chain),
    )


def make_chat(config: JudgeConfig, env: Mapping[str, str]) -> Chat:
    """Build the model that the settings name. No request is sent, so a wrong key or address shows at the first call.

    Raises:
        JudgeError: The provider is unknown or not installed, or its key is missing; or the user's function fails, or
            returns a model that hides its parameters.
    """
    # langchain-cohere uses deprecated calls of pydantic, which its users cannot change.
    warnings.filterwarnings("ignore", category=PydanticDeprecationWarning, module=r"(langchain_)?cohere\.")
    # pydantic warns of token counts that are no integers. `asking` estimates these.
    warnings.filterwarnings("ignore", message="Pydantic serializer warnings")
    try:
        model = _from_python(config) if config.provider == "python" else _of_provider(config, env)
    except RetrievalError as error:
        raise JudgeError(str(error)) from error
    except Exception as error:  # each provider checks its arguments in its own way, and users' code may raise anything
        extra = isinstance(error, ImportError) and config.provider in EXTRAS
        why = f"pip install 'retrieval-evals[{config.provider}]'" if extra else cause(error, "judge")
        raise JudgeError(f"judge.model {config.model!r} cannot be built: {why}") from error
    parameters: dict[str, Any] = {
        "temperature": config.temperature,
        "seed": SEED,
        "max_output_tokens": config.max_output_tokens,
        "base_url": _address(config),
        **({"class": _identity(model, config)} if config.provider == "python" else {}),
    }
    arguments: dict[str, Any] = {}
    if config.provider == "cohere":  # its class takes these with each call alone
        limits = {"max_retries": 0, "timeout_in_seconds": config.timeout_s}
        arguments = {"max_tokens": config.max_output_tokens, "seed": SEED, "request_options": limits}
    return Chat(provider=config.provider, name=config.name, parameters=parameters, model=model, arguments=arguments)


def _address(config: JudgeConfig) -> str | None:
    """Return the address that settings or environment set in place of the provider's own; None if they set none."""
    prefix = (KEYS.get(config.provider) or f"{config.provider.upper()}_API_KEY").removesuffix("API_KEY")
    elsewhere = (os.environ[prefix + end] for end in ADDRESSES if prefix + end in os.environ)
    return config.base_url or " ".join(elsewhere) or None


def _of_provider(config: JudgeConfig, env: Mapping[str, str]) -> "BaseChatModel":
    provider = config.provider
    named = f"judge.model {config.model!r}"
    if provider not in KEYS:
        expected = f"expected one of {', '.join(KEYS)}, or python:module:factory for a chat model of your own"
        raise JudgeError(f"{named}: unknown provider {provider!r}{nearest(provider, [*KEYS, 'python'])}; {expected}")
    if provider in EXTRAS:
        import_module(f"langchain_{provider}")
    from langchain.chat_models import init_chat_model

    variable, otherwise = config.api_key_env or KEYS[provider], "name another variable with judge.api_key_env"
    is_own = provider == "openai" and config.base_url and not config.api_key_env
    key = provider_key(named, variable, env, otherwise, is_own_server=bool(is_own))
    timeout_s, most_tokens = config.timeout_s, config.max_output_tokens
    arguments: dict[str, Any] = {"temperature": config.temperature, "base_url": config.base_url}
    match provider:
        case "cohere":
            arguments |= {"timeout_seconds": timeout_s, "cohere_api_key": key}
        case "ollama":
            arguments |= {"client_kwargs": {"timeout": timeout_s}, "num_predict": most_tokens, "seed": SEED}
        case _:
            arguments |= {"timeout": timeout_s, "max_retries": 0, "max_tokens": most_tokens, "api_key": key}
            arguments |= {"seed": SEED} if provider in SEEDED else {}
    arguments = {name: value for name, value in arguments.items() if value is not None}
    model: BaseChatModel = init_chat_model(config.name, model_provider=provider, **arguments)
    return model


def _from_python(config: JudgeConfig) -> "BaseChatModel":
    from langchain_core.language_models import BaseChatModel

    model = call_factory(config.name, "judge.model")
    if not isinstance(model, BaseChatModel):
        expected = "expected a LangChain chat model (BaseChatModel)"
        raise JudgeError(f"judge.model {config.model!r}: {expected}, got {type(model).__name__}")
    return model


def _identity(model: "BaseChatModel", config: JudgeConfig) -> str:
    """Return the class of a user's model and a digest of its parameters, which tell its verdicts from others."""
    try:
        parameters = json.dumps(model._identifying_params, sort_keys=True)
    except TypeError:  # a parameter that JSON cannot hold
        parameters = "{}"
    if parameters == "{}":
        raise JudgeError(
            f"judge.model {config.model!r}: verdicts are kept by model, and {type(model).__name__} does not tell its "
            "parameters; define its property _identifying_params, a dictionary of texts and numbers"
        )
    digest = hashlib.sha256(parameters.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{type(model).__module__}.{type(model).__qualname__} {digest}"
