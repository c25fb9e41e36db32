"""The identity of a chat model: its class, its parameters and its address, so that no other model's verdicts are taken.

The parameters that LangChain's classes report (`_identifying_params`) hold no address, and a user's class may report
none: then the model is not identified.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

# Names of parameters that do not affect a model's answers, or that may not be stored.
SECRET = re.compile(r"(api_?key|secret|password|credentials?|authorization|headers?|(?<!_)token)$", re.IGNORECASE)
# Names of a model's fields that hold an address, for any provider.
ADDRESS = re.compile(r"(base_url|api_base|api_url|endpoint|host)$")
# Attributes under which LangChain's classes and the providers' libraries keep their HTTP clients.
CLIENTS = ("root_client", "client", "_client")
DEPTH = 3


def identity(model: "BaseChatModel") -> Mapping[str, str] | None:
    """Return class, addresses and a digest of the parameters of a model; None when it hides its parameters.

    The addresses are those that requests go to, also where the environment named them.
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
    for name in type(model).model_fields:
        value = getattr(model, name, None)
        if ADDRESS.search(name) and isinstance(value, str):
            yield _bare(value)
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
