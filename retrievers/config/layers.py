"""Settings from layers: flags over experiment file over environment over `.env` over defaults.

A layer is a nested dict with a label; `build` merges them, validates the whole and reports every fault at once,
with the value, where it came from and what was expected.
"""

import argparse
import os
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType, NoneType
from typing import Any, TypeVar, get_args, get_origin

import yaml
from dotenv import dotenv_values
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from retrievers.config import TABLE, Settings
from retrievers.config.files import read_text
from retrievers.config.settings import UnshownError
from retrievers.errors import ConfigError, nearest
from retrievers.text.shown import quoted, redacted, remember, remember_environment

Model = TypeVar("Model", bound=Settings)
# Environment variables that set retriever settings where the experiment file is silent; no other variable does.
ENVIRONMENT: Mapping[str, str] = {
    "QDRANT_URL": "store.url",
    "RAG_DEFAULT_COLLECTION": "collection",
    "RAG_DEFAULT_TOP_K": "top_k",
    "RAG_SIMILARITY_THRESHOLD": "threshold",
    "RAG_SEARCH_MODE": "mode",
}
# Settings of a model that mean nothing beside another one.
OF_MODEL = frozenset(("base_url", "query_prefix", "document_prefix", "options"))
MOST_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Layer:
    """Nested settings and where they came from, for error messages."""

    label: str
    values: Mapping[str, Any]


# The layers


def environment(environ: Mapping[str, str], dotenv: Path = Path(".env")) -> dict[str, str]:
    """Complete the environment by a `.env` file where a variable is not set. Change neither.

    The keys and passwords in it are hidden from now on in all that is shown (see `retrievers.text.shown`).

    Raises:
        ConfigError: The file cannot be read.
    """
    try:
        read = dotenv_values(dotenv, encoding="utf-8-sig") if dotenv.is_file() else {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{dotenv}: cannot be read ({error}); expected a .env file of NAME=value lines") from None
    env = {**{name: value for name, value in read.items() if value is not None}, **environ}
    remember_environment(env)
    return env


def api_key(env: Mapping[str, str], name: str) -> str | None:
    """Return an API key from the environment, without the line break that a file adds; None when there is none.

    Whatever happens to it later, it is hidden in all that is shown.
    """
    key = env.get(name, "").strip()
    remember(key)
    return key or None


def environment_layer(env: Mapping[str, str], prefix: str = "") -> Layer:
    """Return the settings that the environment names; `prefix` is the path of the retriever's settings in the whole."""
    values = {prefix + setting: env[name] for name, setting in ENVIRONMENT.items() if env.get(name)}
    return Layer(label="the environment", values=nest(values))


def file_layer(path: Path, model: type[Settings], folders: Mapping[str, Path] = MappingProxyType({})) -> Layer:
    """Read the settings of a YAML file; relative paths start at the file's own folder, `~` is left as it is.

    Args:
        path: The file.
        model: Model of the settings.
        folders: Folders by the name with which a path may begin: `name:rest` is the path `rest` in it.

    Raises:
        ConfigError: The file cannot be read, is not YAML, is not a mapping, or has a name twice.
    """
    values = _load(read_text(path, "a YAML file of settings", MOST_BYTES), str(path))
    if not isinstance(values, dict):
        actual = "and the file is empty" if values is None else f"got {quoted(values)}"
        raise ConfigError(f"{path}: expected a mapping of settings, {actual}")
    # An experiment is read for its retriever, where that is what is wanted.
    if isinstance(values.get("retriever"), dict) and "retriever" not in model.model_fields:
        values = values["retriever"]
    flat = dict(flatten(values, unopened=tables(model)))
    for name, info in leaves(model).items():
        if Path in _types(info) and isinstance(flat.get(name), str):
            written = flat[name]
            folder, _, rest = written.partition(":")
            inside = folders[folder] / rest if folder in folders else path.parent / written
            if written and not written.startswith(("~", "local:")):
                flat[name] = os.path.abspath(inside)  # noqa: PTH100 - of what no file can be called, too
    return Layer(label=str(path), values=nest(flat))


def add_flags(parser: argparse.ArgumentParser, model: type[Settings]) -> None:
    """Give the parser a dotted flag for every setting of the model."""
    groups: dict[str, argparse._ArgumentGroup] = {}
    for name, info in leaves(model).items():
        title = name.rpartition(".")[0] or "settings"
        group = groups.setdefault(title, parser.add_argument_group(title))
        default, flag, metavar = default_text(info), f"--{name.replace('_', '-')}", name.rpartition(".")[2].upper()
        about = f"{info.description}{f' (default: {default})' if default else ''}".replace("%", "%%")
        # A missing flag stays out of the namespace, so that no default of it overrides lower layers.
        action = group.add_argument(flag, dest=name, default=argparse.SUPPRESS, metavar=metavar, help=about)
        # The setting's own name, as files have it, is a flag as well, which the help does not repeat.
        parser._option_string_actions[f"--{name}"] = action


def default_text(info: FieldInfo) -> str:
    """Return the default of a setting as it is written; empty for none."""
    default = None if info.is_required() else info.get_default(call_default_factory=True)
    several = default if isinstance(default, list | tuple) else [default]
    return ", ".join(str(each) for each in several if each is not None and not isinstance(each, Settings | dict))


def flag_layer(namespace: argparse.Namespace, model: type[Settings]) -> Layer:
    """Return the settings given as flags.

    Lists and mappings are YAML (`[a, b]`, `{a: b}`); a list may be `a, b` too. `null` unsets a setting that may be
    left out, as in a file.

    Raises:
        ConfigError: A list or mapping is not valid YAML.
    """
    settings = leaves(model)
    values = {name: _flag(name, raw, settings[name]) for name, raw in vars(namespace).items() if name in settings}
    return Layer(label="the command line", values=nest(values))


# The merge


def build(model: type[Model], layers: Sequence[Layer]) -> Model:
    """Merge layers, lowest first, and validate the whole.

    Raises:
        ConfigError: A setting has a fault; a line for each: setting, value, where it was set, what was expected.
    """
    merged: dict[str, Any] = {}
    idle_beside = _idle_beside(model)
    for layer in layers:
        values = dict(flatten(layer.values, unopened=tables(model)))
        merged = {n: value for n, value in merged.items() if not _is_dropped(n, merged, values, idle_beside)} | values
    try:
        return model.model_validate(nest(merged))
    except ValidationError as error:
        faults = [_explain(model, dict(item), layers) for item in error.errors(include_url=False)]
        raise ConfigError("\n".join(faults)) from None


def given_settings(settings: Model, changes: Mapping[str, Any]) -> Model:
    """Return settings with others in their place that a caller gave as arguments.

    Raises:
        ConfigError: They have a fault, as in `build`.
    """
    values = {**settings.model_dump(exclude_unset=True), **changes}
    return build(type(settings), [Layer(label="the arguments", values=values)])


def _idle_beside(model: type[Settings], prefix: str = "") -> dict[str, list[str]]:
    """Return what `Settings.idle_beside` says of a model and its sections, by dotted names."""
    idle = {prefix + name: [prefix + other for other in others] for name, others in model.idle_beside.items()}
    for name, info in model.model_fields.items():
        if isinstance(info.annotation, type) and issubclass(info.annotation, Settings):
            idle |= _idle_beside(info.annotation, f"{prefix}{name}.")
    return idle


def _is_dropped(
    name: str, merged: Mapping[str, Any], values: Mapping[str, Any], idle_beside: Mapping[str, Sequence[str]]
) -> bool:
    """Return True if the values of a higher layer replace a setting of those merged, or leave no meaning to it."""
    if any(_overlaps(name, other) for other in values):
        return True
    group, _, last = name.rpartition(".")
    if last in OF_MODEL and (model := values.get(f"{group}.model")):
        # Another model at the same address gets the texts there, and nowhere else.
        provider = str(merged.get(f"{group}.model")).partition(":")[0]
        return last != "base_url" or provider != str(model).partition(":")[0]
    given = {other for other, value in values.items() if value is not None}
    return any(_overlaps(name, idle) and not given.isdisjoint(others) for idle, others in idle_beside.items())


def _overlaps(name: str, other: str) -> bool:
    return name == other or other.startswith(f"{name}.") or name.startswith(f"{other}.")


def leaves(model: type[Settings], prefix: str = "") -> dict[str, FieldInfo]:
    """Return every setting of a model by its dotted name, nested models opened."""
    settings: dict[str, FieldInfo] = {}
    for name, info in model.model_fields.items():
        inner = info.annotation
        if isinstance(inner, type) and issubclass(inner, Settings):
            settings |= leaves(inner, f"{prefix}{name}.")
        else:
            settings[prefix + name] = info
    return settings


def tables(model: type[Settings]) -> frozenset[str]:
    """Return the settings marked as a `TABLE`."""
    return frozenset(name for name, info in leaves(model).items() if info.json_schema_extra == TABLE)


def flatten(values: Mapping[str, Any], prefix: str = "", unopened: Container[str] = ()) -> Iterator[tuple[str, Any]]:
    """Return (dotted name, value) of nested mappings; an empty mapping is a value, and so is one in `unopened`."""
    for key, value in values.items():
        if isinstance(value, Mapping) and value and f"{prefix}{key}" not in unopened:
            yield from flatten(value, f"{prefix}{key}.", unopened)
        else:
            yield f"{prefix}{key}", value


def nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Invert `flatten`."""
    tree: dict[str, Any] = {}
    for name, value in flat.items():
        *parents, last = name.split(".")
        reduce(lambda node, parent: node.setdefault(parent, {}), parents, tree)[last] = value
    return tree


# YAML


class _Settings(yaml.SafeLoader):
    """The safe loader with unique keys, and without numbers in base 60: `1:20` is a range, as in YAML 1.2."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names: set[str] = set()
        for key, _ in node.value:
            if key.value in names:
                problem = f"{str(key.value)!r} is given twice; leave one of them out"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            names.add(str(key.value))
        return super().construct_mapping(node, deep)


_Settings.yaml_implicit_resolvers = {
    first: [("tag:yaml.org,2002:str", re.compile(r"^[-+]?[0-9][0-9_]*(?::[0-9_.]+)+$")), *resolvers]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _load(text: str, where: str) -> Any:
    try:
        return yaml.load(text, _Settings)
    except (ValueError, RecursionError, yaml.YAMLError) as error:  # a date that is none, too
        mark = getattr(error, "problem_mark", None)
        line, problem = f":{mark.line + 1}" if mark else "", getattr(error, "problem", None) or error
        raise ConfigError(f"{where}{line}: not valid YAML: {problem}") from None


def _types(info: FieldInfo) -> set[Any]:
    """Return every type in the annotation of a setting, generic ones by their origin."""
    annotations: list[Any] = [info.annotation]
    for annotation in annotations:
        annotations += get_args(annotation)
    return {get_origin(annotation) or annotation for annotation in annotations}


def _flag(name: str, raw: str, info: FieldInfo) -> Any:
    kinds = _types(info)
    if raw == "null" and NoneType in kinds:
        return None
    is_list = not kinds.isdisjoint({list, tuple, Sequence}) and Mapping not in kinds
    if raw.lstrip().startswith(("{", "[") if is_list else "{") and (is_list or Mapping in kinds):
        return _load(raw, f"--{name.replace('_', '-')} {quoted(raw)}")
    # pydantic converts numbers and booleans from text, with the setting's own message.
    return [part.strip() for part in raw.split(",")] if is_list else raw


# The faults


def _explain(model: type[Settings], item: dict[str, Any], layers: Sequence[Layer]) -> str:
    name, value = ".".join(map(str, item["loc"])).removesuffix(".[key]"), item["input"]
    # The highest layer that sets the name, or a part of it, is at fault.
    origin = next((la.label for la in reversed(layers) if any(_overlaps(name, n) for n, _ in flatten(la.values))), None)
    where = f" (set by {origin})" if origin else ""
    if item["type"] == "extra_forbidden":
        if successor := removed(name):
            return f"{name}: is no setting any more{where}: {successor}"
        return f"{name}: unknown setting{where}{nearest(name, leaves(model))}"
    if successor := removed(name, value):
        return f"{name}: {quoted(value)} is no value any more{where}: {successor}"
    inside = value if isinstance(value, Mapping) and "." in name else ()
    beside = [leaf for key in inside if (leaf := f"{item['loc'][-1]}.{key}") in leaves(model)]
    where += f"; {beside[0]} stands outside {name.partition('.')[0]}" if beside else ""
    # A whole section would bury the message, and may hold secrets.
    secret = isinstance(item.get("ctx", {}).get("error"), UnshownError)
    got = "" if secret or isinstance(value, Mapping | Settings) else f", got {redacted(quoted(value))}"
    return f"{name or 'settings'}: {str(item['msg']).removeprefix('Value error, ')}{got}{where}"


def removed(name: str, value: object = None) -> str:
    """Return what took the place of a setting, flag, metric or subcommand of an earlier version; empty for others.

    Args:
        name: Dotted name of a setting, with or without `retriever.`; a flag with its dashes; a metric; or the
            subcommand as `retrieval-evals COMMAND`.
        value: Its value, where the name itself is still known.
    """
    setting = re.sub(r"\.\d+$", "", name.removeprefix("--").replace("-", "_").removeprefix("retriever."))
    # `retrievers index` has the settings of indexing without their prefix.
    names = [name, setting, f"index.{setting}"]
    if value is None:
        names += [setting[: dot.start()] for dot in re.finditer(r"\.", setting)]
    else:
        [value] = value if isinstance(value, list) and len(value) == 1 else [value]
        # Of few bytes of YAML, aliases make a list that no text can hold.
        names = [f"{each}={value}" for each in names] if isinstance(value, str) else []
    return next((_successors()[each] for each in names if each in _successors()), "")


@cache
def _successors() -> dict[str, str]:
    return dict(yaml.safe_load(files("retrievers.config").joinpath("removed.yaml").read_text(encoding="utf-8")))
