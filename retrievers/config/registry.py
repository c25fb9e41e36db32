"""Names of what is declared in a registry, as types of settings."""

from collections.abc import Callable, Mapping
from pkgutil import resolve_name
from typing import Any

from pydantic import AfterValidator

from retrievers.errors import nearest


def one_of(registry: Mapping[str, object], note: Callable[[str], str] = lambda name: "") -> AfterValidator:
    """Return a check that a setting is a name of the registry, which may grow later.

    Args:
        registry: Its keys are the names.
        note: What to add to the name that is nearest to an unknown one; to none where none is near.
    """

    def check(name: str) -> str:
        if name not in registry:
            *names, last = map(repr, registry)
            near = nearest(name, registry, limit=1)
            added = note(near.split("'")[1] if near else "")
            raise ValueError(f"Input should be {', '.join(names)} or {last}{near}{added}")
        return name

    return AfterValidator(check)


def late(target: str) -> Callable[..., Any]:
    """Return a function that imports `module:function` when it is called, and calls that."""

    def call(*args: Any) -> Any:
        return resolve_name(target)(*args)

    return call
