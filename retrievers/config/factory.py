"""The user's own code: a factory named `module:factory`, with any failure in it as a typed error."""

import sys
from collections.abc import Callable
from importlib import import_module
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

from retrievers.errors import ConfigError, nearest
from retrievers.net.faults import cause


def build(target: str, setting: str) -> Any:
    """Call a factory without arguments and return its result.

    Args:
        target: `module:factory`; the module may be a file of the current folder.
        setting: Which setting names it, for messages.

    Raises:
        ConfigError: It cannot be imported or called, or raises.
    """
    factory = find(target, setting)
    if needed := _required(factory):
        expected = "expected a function that takes no argument and returns the object"
        raise ConfigError(f"{setting} {target!r}: {expected}; this one needs {', '.join(needed)}")
    try:
        return factory()
    except (Exception, SystemExit) as error:  # the user's own code may raise anything, and leave with code 0
        raise ConfigError(f"{setting} {target!r} cannot be loaded: {cause(error)}") from error


def find(target: str, setting: str) -> Callable[[], Any]:
    """Import a factory without calling it.

    Raises:
        ConfigError: The module cannot be imported or has no such factory.
    """
    name, _, attribute = target.partition(":")
    # A script that calls us has its own folder there.
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        module = import_module(name)
    except (Exception, SystemExit) as error:
        raise ConfigError(f"{setting} {target!r} cannot be loaded: {cause(error)}") from error
    factory: Any = getattr(module, attribute, None)
    if not callable(factory):
        near = nearest(attribute, (defined for defined, value in vars(module).items() if callable(value)))
        raise ConfigError(f"{setting} {target!r}: expected a function or class of {name}, found none{near}")
    call: Callable[[], Any] = factory
    return call


def _required(factory: Callable[..., Any]) -> list[str]:
    try:
        parameters = signature(factory).parameters.values()
    except (TypeError, ValueError):  # a builtin may have none
        return []
    optional = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    return [one.name for one in parameters if one.default is one.empty and one.kind not in optional]
