"""The identity of a chat model: its class, its parameters and its address, so that no other model's verdicts are taken.

What LangChain's classes say of themselves (`_identifying_params`) holds no address, and a class of the user's may say
nothing: then it is not known what answers.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

SECRET = re.compile(r"(api_?key|secret|password|credentials?|authorization|headers?|(?<!_)token)$", re.IGNORECASE)
"""Names of parameters that hold no part of what a model answers, or what may not be kept."""
ADDRESS = re.compile(r"(base_url|api_base|api_url|endpoint|host)$")
"""Names of a model's fields that hold an address, whatever the provider."""
CLIENTS = ("root_client", "client", "_client")
"""Where LangChain's classes and the providers' libraries keep what makes the requests."""
DEPTH = 3


def identity(model: "BaseChatModel") -> Mapping[str, str] | None:
    """Class, addresses and a digest of the parameters of a model; None when it does not tell its parameters.

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
        return {str(name): _without_secrets(one) for name, one in value.items() if not SECRET.search(str(name))}
    return [_without_secrets(one) for one in value] if isinstance(value, list | tuple) else value


def _addresses(model: "BaseChatModel") -> Iterator[str]:
    for name in type(model).model_fields:
        value = getattr(model, name, None)
        if ADDRESS.search(name) and isinstance(value, str):
            yield _bare(value)
    holders: list[Any] = [model]
    for _ in range(DEPTH):
        holders = [held for one in holders for name in CLIENTS if (held := getattr(one, name, None)) is not None]
        urls = [_bare(str(url)) for one in holders if (url := getattr(one, "base_url", None))]
        if urls:  # of a provider's client; what is inside of it is of HTTP's
            yield from urls
            return


def _bare(url: str) -> str:
    """An address without what may be secret in it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")
