"""Settings from layers: flags over experiment file over environment over `.env` over defaults.

A layer is a nested dict with a label; `build` merges them, validates the whole and reports every fault at once,
with the value, where it came from and what was expected.
"""

import argparse
import os
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType, NoneType
from typing import Any, TypeVar, get_args, get_origin

import yaml
from dotenv import dotenv_values
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from retrievers.config import TABLE, UnshownError
from retrievers.config.files import read_text, without_mark
from retrievers.config.removed import removed
from retrievers.errors import ConfigError, nearest
from retrievers.text.quoting import quoted
from retrievers.text.secrets import redacted, remember, remember_environment

Model = TypeVar("Model", bound=BaseModel)
# Environment variables that set retriever settings where the experiment file is silent; no other variable does.
ENVIRONMENT: Mapping[str, str] = {
    "QDRANT_URL": "store.url",
    "RAG_DEFAULT_COLLECTION": "collection",
    "RAG_DEFAULT_TOP_K": "top_k",
    "RAG_SIMILARITY_THRESHOLD": "threshold",
    "RAG_SEARCH_MODE": "mode",
}
# A setting, and what lower layers say that means nothing beside it. The retriever's have no prefix here.
REPLACES: Mapping[str, tuple[str, ...]] = {
    "store.url": ("store.path",),
    "store.path": ("store.url",),
    "dataset.path": ("dataset.hub", "baseline"),
    "dataset.hub": ("dataset.path", "baseline"),
    "dataset.split": ("baseline",),
    "dataset.ids": ("baseline",),
}
# Settings of lower layers that still count when a higher layer names the user's own retriever (`python`).
KEPT = ("top_k", "candidates", "metadata")
# Settings of a model that fit no other provider's.
OF_PROVIDER = frozenset(
    ("model", "provider", "base_url", "api_key_env", "dimensions", "query_prefix", "document_prefix", "options")
)
MAX_FAULTS_SHOWN = 50
MOST_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Layer:
    """Nested settings and where they came from, for error messages.

    Attributes:
        lines: The line of each setting in the file named by the label, by its dotted name.
    """

    label: str
    values: Mapping[str, Any]
    lines: Mapping[str, int] = field(default_factory=dict)

    def place(self, name: str) -> str:
        """Return the origin of a setting, or of the nearest one above it."""
        known = next((part for part in (name, *above(name)) if part in self.lines), None)
        return f"{self.label}:{self.lines[known]}" if known else self.label


# The layers


def environment(environ: Mapping[str, str], dotenv: Path = Path(".env")) -> dict[str, str]:
    """Complete the environment by a `.env` file where a variable is not set. Change neither.

    The keys and passwords in it are hidden from now on in all that is shown (see `retrievers.text.secrets`).

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

    Raises:
        ConfigError: It holds a character that no header may carry. The HTTP libraries would print the key.
    """
    key = env.get(name, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(f"{name}: holds a line break or a character that is not ASCII; expected an API key")
    remember(key)
    return key or None


def environment_layer(env: Mapping[str, str], prefix: str = "") -> Layer:
    """Return the settings that the environment names; `prefix` is the path of the retriever's settings in the whole."""
    values = {prefix + setting: env[name] for name, setting in ENVIRONMENT.items() if env.get(name)}
    return Layer(label="the environment", values=nest(values))


def file_layer(path: Path, model: type[BaseModel], folders: Mapping[str, Path] = MappingProxyType({})) -> Layer:
    """Read the settings of a YAML file; relative paths start at the file's own folder, `~` is left as it is.

    Args:
        path: The file.
        model: Model of the settings.
        folders: Folders by the name with which a path may begin: `name:rest` is the path `rest` in it.

    Raises:
        ConfigError: The file cannot be read, is not YAML, is not a mapping, or says one thing twice.
    """
    text = read_text(path, "a YAML file of settings", MOST_BYTES)
    try:
        values, lines = _load(text, _Settings)
    except (ValueError, yaml.YAMLError) as error:  # a date that is none, too
        mark = getattr(error, "problem_mark", None)
        raise ConfigError(f"{path}{f':{mark.line + 1}' if mark else ''}: not valid YAML: {_problem(error)}") from None
    if not isinstance(values, dict):
        actual = "and the file is empty" if values is None else f"got {quoted(values)}"
        raise ConfigError(f"{path}: expected a mapping of settings, {actual}")
    # An experiment is read for its retriever, where that is what is wanted.
    if isinstance(values.get("retriever"), dict) and "retriever" not in model.model_fields:
        values = values["retriever"]
        lines = {name.removeprefix("retriever."): line for name, line in lines.items()}
    pairs = [*flatten(values, unopened=tables(model))]
    flat, names = dict(pairs), [name for name, _ in pairs]
    if clash := next((n for n in names if names.count(n) > 1 or not flat.keys().isdisjoint(above(n))), None):
        place = Layer(label=str(path), values={}, lines=lines).place(clash)
        raise ConfigError(f"{place}: {clash} is given twice, nested and dotted; leave one of them out")
    for name, info in leaves(model).items():
        if Path in _types(info) and isinstance(flat.get(name), str):
            mark, written = without_mark(flat[name])
            folder, _, rest = written.partition(":")
            inside = folders[folder] / rest if folder in folders else path.parent / written
            if not written.startswith("~"):
                flat[name] = mark + os.path.abspath(inside)  # noqa: PTH100 - of what no file can be called, too
    return Layer(label=str(path), values=nest(flat), lines=lines)


def add_flags(parser: argparse.ArgumentParser, model: type[BaseModel]) -> None:
    """Give the parser a dotted flag for every setting of the model."""
    groups: dict[str, argparse._ArgumentGroup] = {}
    for name, info in leaves(model).items():
        title = name.rpartition(".")[0] or "settings"
        group = groups.setdefault(title, parser.add_argument_group(title))
        default = default_text(info)
        group.add_argument(
            f"--{name.replace('_', '-')}",
            dest=name,
            # A missing flag stays out of the namespace, so that no default of it overrides lower layers.
            default=argparse.SUPPRESS,
            metavar=name.rpartition(".")[2].upper(),
            help=f"{info.description}{f' (default: {default})' if default else ''}".replace("%", "%%"),
        )


def default_text(info: FieldInfo) -> str:
    """Return the default of a setting as it is written; empty for none."""
    default = None if info.is_required() else info.get_default(call_default_factory=True)
    if isinstance(default, list | tuple):
        return ", ".join(map(str, default))
    return "" if default in (None, "") or isinstance(default, BaseModel | dict) else str(default)


def flag_layer(namespace: argparse.Namespace, model: type[BaseModel]) -> Layer:
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
    for layer in layers:
        values = dict(flatten(layer.values, unopened=tables(model)))
        _drop_replaced(merged, values)
        merged |= values
    try:
        return model.model_validate(nest(merged))
    except ValidationError as error:
        items = error.errors(include_url=False)
        faults = [_explain(model, dict(item), layers) for item in items[:MAX_FAULTS_SHOWN]]
        more = [f"… and {len(items) - MAX_FAULTS_SHOWN} more"] if len(items) > MAX_FAULTS_SHOWN else []
        raise ConfigError("\n".join([*faults, *more])) from None


def _drop_replaced(merged: dict[str, Any], values: Mapping[str, Any]) -> None:
    """Drop of the lower layers what the values of the next one replace, or what means nothing beside them."""
    given = {name.removeprefix("retriever.") for name, value in values.items() if value is not None}
    replaced = {name for setting in given for name in REPLACES.get(setting, ())}
    uppers = {upper for name in values for upper in above(name)}
    for name in [*merged]:
        # A mapping replaces single entries below it, and the other way round.
        overlaps = name in uppers or not values.keys().isdisjoint(above(name))
        short = name.removeprefix("retriever.")
        of_retriever = "retriever.python" not in values or short != name
        idle = "python" in given and of_retriever and short.partition(".")[0] not in KEPT
        if overlaps or idle or short in replaced:
            del merged[name]
    for group in {name.rpartition(".")[0] for name in values if name.endswith((".model", ".provider"))}:
        new, old = _provider(values, group), _provider(merged, group)
        if old and not new:  # a model by its name alone is another of the same provider
            merged[f"{group}.provider"] = old
        elif old != new:
            for name in [n for n in merged if n.startswith(f"{group}.")]:
                if name.removeprefix(f"{group}.").partition(".")[0] in OF_PROVIDER:
                    del merged[name]


def _provider(values: Mapping[str, Any], group: str) -> str | None:
    """Return the provider that a group of settings names, also as `provider:model`; None where it names none."""
    name, colon, _ = str(values.get(f"{group}.model") or "").partition(":")
    return values.get(f"{group}.provider") or (name if colon else None)


def leaves(model: type[BaseModel], prefix: str = "") -> dict[str, FieldInfo]:
    """Return every setting of a model by its dotted name, nested models opened."""
    settings: dict[str, FieldInfo] = {}
    for name, info in model.model_fields.items():
        inner = info.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            settings |= leaves(inner, f"{prefix}{name}.")
        else:
            settings[prefix + name] = info
    return settings


def tables(model: type[BaseModel]) -> frozenset[str]:
    """Return the settings marked as a `TABLE`."""
    return frozenset(name for name, info in leaves(model).items() if info.json_schema_extra == TABLE)


def flatten(values: Mapping[str, Any], prefix: str = "", unopened: Container[str] = ()) -> Iterator[tuple[str, Any]]:
    """Flatten nested mappings to (dotted name, value); an empty mapping is a value, and so is one in `unopened`."""
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
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = value
    return tree


def above(name: str) -> Iterator[str]:
    """Return the dotted names that contain a name."""
    while name := name.rpartition(".")[0]:
        yield name


# YAML


class _Settings(yaml.SafeLoader):
    """The safe loader with unique keys, and without numbers in base 60: `1:20` is a range, as in YAML 1.2."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        lines: dict[str, int] = {}
        for key, _ in node.value:
            if (name := str(key.value)) in lines:
                problem = f"{name!r} is given twice, first at line {lines[name]}; leave one of them out"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            lines[name] = key.start_mark.line + 1
        return super().construct_mapping(node, deep)


_Settings.yaml_implicit_resolvers = {
    first: [("tag:yaml.org,2002:str", re.compile(r"^[-+]?[0-9][0-9_]*(?::[0-9_.]+)+$")), *resolvers]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class _Words(_Settings):
    """The same with all scalars left text: an id 12 is no number, `yes` no boolean."""


_Words.yaml_implicit_resolvers = {}


def _load(text: str, loader: type[_Settings]) -> tuple[Any, dict[str, int]]:
    """Return the value of a YAML text, and the line of each key by its dotted name."""
    reading = loader(text)
    node = reading.get_single_node()
    return (None, {}) if node is None else (reading.construct_document(node), dict(_lines(node)))


def _lines(node: yaml.Node, prefix: str = "") -> Iterator[tuple[str, int]]:
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        yield f"{prefix}{key.value}", key.start_mark.line + 1
        yield from _lines(value, f"{prefix}{key.value}.")


def _problem(error: Exception) -> str:
    return ": ".join(filter(None, (getattr(error, "context", None), getattr(error, "problem", None)))) or str(error)


def _types(info: FieldInfo) -> set[Any]:
    """Return every type in the annotation of a setting, generic ones by their origin."""

    def opened(annotation: Any) -> Iterator[Any]:
        yield get_origin(annotation) or annotation
        for argument in get_args(annotation):
            yield from opened(argument)

    return {*opened(info.annotation)}


def _flag(name: str, raw: str, info: FieldInfo) -> Any:
    kinds = _types(info)
    if raw == "null" and NoneType in kinds:
        return None
    is_list = not kinds.isdisjoint({list, tuple, Sequence}) and Mapping not in kinds
    if not raw.lstrip().startswith(("{", "[") if is_list else "{") or not (is_list or Mapping in kinds):
        # pydantic converts numbers and booleans from text, with the setting's own message.
        return [part.strip() for part in raw.split(",")] if is_list else raw
    try:
        # Values of any type are as YAML reads them, all others as pydantic does.
        return _load(raw, _Settings if Any in kinds else _Words)[0]
    except yaml.YAMLError as error:
        problem = f"{quoted(raw)} is not valid YAML: {_problem(error)}"
        raise ConfigError(f"--{name.replace('_', '-')}: {problem}") from None


# The faults


def _explain(model: type[BaseModel], item: dict[str, Any], layers: Sequence[Layer]) -> str:
    name, value = ".".join(map(str, item["loc"])), item["input"]
    # The highest layer that sets the name, or a part of it, is at fault.
    origin = next((la for la in reversed(layers) if any(_same(name, n) for n, _ in flatten(la.values))), None)
    where = f" (set by {origin.place(name)})" if origin else ""
    if item["type"] == "extra_forbidden":
        if successor := removed(name):
            return f"{name}: is no setting any more{where}: {successor}"
        return f"{name}: unknown setting{where}{nearest(name, leaves(model))}"
    if successor := removed(name, value):
        given = value[0] if isinstance(value, list) else value
        return f"{name}: {quoted(given)} is no value any more{where}: {successor}"
    if item["type"] == "missing":
        return f"{name}: this setting is required"
    # A whole section would bury the message, and may hold secrets.
    secret = isinstance(item.get("ctx", {}).get("error"), UnshownError)
    got = "" if secret or isinstance(value, Mapping | BaseModel) else f", got {redacted(quoted(value))}"
    return f"{name or 'settings'}: {str(item['msg']).removeprefix('Value error, ')}{got}{where}"


def _same(name: str, other: str) -> bool:
    return name == other or other.startswith(f"{name}.") or name.startswith(f"{other}.")
