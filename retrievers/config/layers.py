"""Settings from layers: flags over experiment file over environment over `.env` over defaults.

A layer is a nested dict with a label; `build` merges them, validates the whole and reports every fault at once,
with the value, where it came from and what was expected.
"""

import argparse
import os
import re
from collections import abc
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType, NoneType, UnionType
from typing import Any, TypeVar, get_args

import yaml
from dotenv import dotenv_values
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from retrievers.config import TABLE, UnshownError
from retrievers.config.files import without_mark
from retrievers.config.removed import removed
from retrievers.errors import ConfigError, nearest
from retrievers.text.quoting import quoted
from retrievers.text.secrets import redacted, remember, remember_environment

Model = TypeVar("Model", bound=BaseModel)
# Environment variables that set retriever settings where the experiment file is silent.
ENVIRONMENT: Mapping[str, str] = {
    "QDRANT_URL": "store.url",
    "RAG_DEFAULT_COLLECTION": "collection",
    "RAG_DEFAULT_TOP_K": "top_k",
    "RAG_SIMILARITY_THRESHOLD": "threshold",
    "RAG_SEARCH_MODE": "mode",
}
MAX_FAULTS_SHOWN = 50
# Settings of which a higher layer's choice replaces the lower layer's other one.
EXCLUSIVE = (("store.url", "store.path"), ("dataset.path", "dataset.hub"))
# Settings of lower layers that say nothing any more when a higher layer sets one of those behind them.
OUTDATED_BY: Mapping[str, tuple[str, ...]] = {
    "baseline": ("dataset.path", "dataset.hub", "dataset.split", "dataset.ids"),
    "reference": ("dataset.path", "dataset.hub", "sources.dir", "retriever.python", "retriever.collection",
                  "retriever.store.url"),
}  # fmt: skip
# Settings of lower layers that still count when a higher layer names the user's own retriever (`python`).
KEPT = ("top_k", "candidates", "metadata")
# Settings of a model that fit no other provider's.
OF_PROVIDER = (
    "model", "provider", "base_url", "api_key_env", "dimensions", "query_prefix", "document_prefix", "options",
)  # fmt: skip
# YAML 1.1, which PyYAML reads, takes digits joined by colons (`1:20`) for base 60; YAML 1.2 has dropped that.
BASE_60 = re.compile(r"^[-+]?[0-9][0-9_]*(?::[0-9_.]+)+$")


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
        while name and name not in self.lines:
            name = name.rpartition(".")[0]
        return f"{self.label}:{self.lines[name]}" if name else self.label


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
    # The process environment wins: a `.env` file only fills gaps.
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
    try:
        values, lines = _load(path.read_text(encoding="utf-8-sig"), _SettingsLoader)
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigError(f"{path}{line}: not valid YAML: {_problem(error)}") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}; expected a YAML file of settings") from None
    # Not UTF-8, a date that is none, or a character that YAML does not have.
    except (ValueError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: not valid YAML: {error}") from None
    if not isinstance(values, dict):
        actual = "and the file is empty" if values is None else f"got {quoted(values)}"
        raise ConfigError(f"{path}: expected a mapping of settings, {actual}")
    # An experiment is read for its retriever, where that is what is wanted.
    if isinstance(values.get("retriever"), dict) and "retriever" not in model.model_fields:
        values = values["retriever"]
        lines = {name.removeprefix("retriever."): line for name, line in lines.items()}
    layer = Layer(label=str(path), values=values, lines=lines)
    flat = _flat(layer, model)
    for name, info in leaves(model).items():
        if Path in _types(info.annotation) and isinstance(flat.get(name), str):
            mark, written = without_mark(flat[name])
            if not written.startswith("~"):
                folder, _, rest = written.partition(":")
                inside = folders[folder] / rest if folder in folders else path.parent / written
                flat[name] = mark + os.path.abspath(inside)  # noqa: PTH100 - of what no file can be called, too
    return Layer(label=layer.label, values=nest(flat), lines=lines)


def add_flags(parser: argparse.ArgumentParser, model: type[BaseModel]) -> None:
    """Give the parser a dotted flag for every setting of the model."""
    groups: dict[str, argparse._ArgumentGroup] = {}
    for name, info in leaves(model).items():
        title = name.rpartition(".")[0] or "settings"
        group = groups.setdefault(title, parser.add_argument_group(title))
        default = info.get_default(call_default_factory=True) if not info.is_required() else None
        plain = ", ".join(map(str, default)) if isinstance(default, list | tuple) else str(default)
        unsaid = default in (None, "", ()) or isinstance(default, BaseModel | dict)
        group.add_argument(
            f"--{name.replace('_', '-')}",
            dest=name,
            # A missing flag stays out of the namespace, so that no default of it overrides lower layers.
            default=argparse.SUPPRESS,
            metavar=name.rpartition(".")[2].upper(),
            help=((info.description or "") + ("" if unsaid else f" (default: {plain})")).replace("%", "%%"),
        )


def flag_layer(namespace: argparse.Namespace, model: type[BaseModel]) -> Layer:
    """Return the settings given as flags.

    Lists and mappings are YAML (`[a, b]`, `{a: b}`); a list may be `a, b` too. `null` unsets a setting that may be
    left out, as in a file.

    Raises:
        ConfigError: A list or mapping is not valid YAML.
    """
    settings = leaves(model)
    values = {name: _parse(name, raw, settings[name]) for name, raw in vars(namespace).items() if name in settings}
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
        # Before the merge, while the layer of each value is still known.
        _drop_outdated(merged, values)
        uppers = {upper for new in values for upper in above(new)}
        # A mapping set higher up replaces single entries below, and the other way round.
        for name in list(merged):
            if name in uppers or any(upper in values for upper in above(name)):
                del merged[name]
        merged.update(values)
    try:
        return model.model_validate(nest(merged))
    except ValidationError as error:
        items = error.errors(include_url=False)
        faults = [_explain(model, dict(item), layers) for item in items[:MAX_FAULTS_SHOWN]]
        more = [f"… and {len(items) - MAX_FAULTS_SHOWN} more"] if len(items) > MAX_FAULTS_SHOWN else []
        raise ConfigError("\n".join([*faults, *more])) from None


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


def _drop_outdated(merged: dict[str, Any], values: Mapping[str, Any]) -> None:
    """Drop from the merged settings of lower layers what means nothing beside the values of the next layer."""
    given = {name for name, value in values.items() if value is not None}
    for pair in EXCLUSIVE:
        for first, other in (pair, pair[::-1]):
            for name in (n for n in given if n == first or n.endswith(f".{first}")):
                replaced = name.removesuffix(first) + other
                if replaced not in values:
                    merged.pop(replaced, None)
    for name in given & {"python", "retriever.python"}:
        prefix = name.removesuffix("python")
        for below in [n for n in merged if n.startswith(prefix)]:
            if below.removeprefix(prefix).partition(".")[0] not in KEPT:
                del merged[below]
    _drop_other_provider(merged, values, given)
    for name, others in OUTDATED_BY.items():
        if given.intersection(others):
            merged.pop(name, None)


def _drop_other_provider(merged: dict[str, Any], values: Mapping[str, Any], given: set[str]) -> None:
    """Drop the settings of a lower layer's model where a layer names another provider's.

    The address of one provider's server, or the prefixes of its model, would be wrong for another.
    """
    for group in {group for name in given for group, _, last in [name.rpartition(".")] if last in OF_PROVIDER[:2]}:
        new, old = _provider(values, group), _provider(merged, group)
        if new and f"{group}.provider" not in values:
            merged.pop(f"{group}.provider", None)
        if new and old not in (None, new):
            for name in OF_PROVIDER:
                for below in [n for n in merged if n == f"{group}.{name}" or n.startswith(f"{group}.{name}.")]:
                    del merged[below]
        elif old and not new:  # a model by its name alone is another of the same provider
            merged[f"{group}.provider"] = old


def _provider(values: Mapping[str, Any], group: str) -> str | None:
    """Return the provider that a group of settings names, also as `provider:model`; None where it names none."""
    provider, model = values.get(f"{group}.provider"), str(values.get(f"{group}.model") or "")
    name, colon, _ = model.partition(":")
    return str(provider) if provider is not None else name if colon else None


def _flat(layer: Layer, model: type[BaseModel]) -> dict[str, Any]:
    """Return the settings of a layer by their dotted names.

    Raises:
        ConfigError: A name is given twice, dotted and nested.
    """
    flat: dict[str, Any] = {}
    for name, value in flatten(layer.values, unopened=tables(model)):
        if name in flat:
            raise ConfigError(f"{layer.place(name)}: {name} is given twice, nested and dotted; leave one of them out")
        flat[name] = value
    # `nest` could not hold a value at a name and below it.
    clash = next(((upper, name) for name in flat for upper in above(name) if upper in flat), None)
    if clash:
        raise ConfigError(
            f"{layer.place(clash[1])}: {clash[0]} is given a value and {clash[1]} as well; expected one of them"
        )
    return flat


def _types(annotation: Any) -> Iterable[Any]:
    yield annotation
    for argument in get_args(annotation):
        yield from _types(argument)


# YAML


class _UniqueKeys(yaml.constructor.BaseConstructor):
    """The first base of a loader that refuses a repeated key."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        lines: dict[str, int] = {}
        for key, _ in node.value:
            name = str(key.value)
            if name in lines:
                problem = f"{name!r} is given twice, first at line {lines[name]}; leave one of them out"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            lines[name] = key.start_mark.line + 1
        return super().construct_mapping(node, deep)


class _SettingsLoader(_UniqueKeys, yaml.SafeLoader):
    """The safe loader without numbers in base 60."""


_SettingsLoader.yaml_implicit_resolvers = {
    first: [("tag:yaml.org,2002:str", BASE_60), *resolvers]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class _FlagLoader(_UniqueKeys, yaml.BaseLoader):
    """A loader that leaves all scalars text: an id 12 is no number, `yes` no boolean."""


def _load(text: str, loader: type[_SettingsLoader | _FlagLoader]) -> tuple[Any, dict[str, int]]:
    """Return the value of a YAML text, and the line of each key by its dotted name."""
    reading = loader(text)
    node = reading.get_single_node()
    return (None, {}) if node is None else (reading.construct_document(node), dict(_lines(node, "")))


def _lines(node: yaml.Node, prefix: str) -> list[tuple[str, int]]:
    if not isinstance(node, yaml.MappingNode):
        return []
    lines: list[tuple[str, int]] = []
    for key, value in node.value:
        name = f"{prefix}{key.value}"
        lines += [(name, key.start_mark.line + 1), *_lines(value, f"{name}.")]
    return lines


def _problem(error: yaml.MarkedYAMLError) -> str:
    return ": ".join(filter(None, (error.context, error.problem)))


def _parse(name: str, raw: str, info: FieldInfo) -> Any:
    kinds = [*_types(info.annotation)]
    if raw == "null" and NoneType in kinds:
        return None
    origins = {getattr(kind, "__origin__", kind) for kind in kinds}
    is_list = bool(origins & {list, tuple, abc.Sequence})
    # pydantic converts numbers and booleans from text, with the setting's own message.
    if not is_list and not origins & {dict, abc.Mapping}:
        return raw
    if not raw.lstrip().startswith(("{", "[") if is_list else "{"):
        return [part.strip() for part in raw.split(",")] if is_list else raw
    # A table of the user's own or a text, such as a filter, has its numbers as numbers.
    typed = info.json_schema_extra == TABLE and isinstance(info.annotation, UnionType)
    try:
        return _load(raw, _SettingsLoader if typed else _FlagLoader)[0]
    except yaml.YAMLError as error:
        problem = _problem(error) if isinstance(error, yaml.MarkedYAMLError) else error
        flag = f"--{name.replace('_', '-')}"
        raise ConfigError(f"{flag}: {quoted(raw)} is not valid YAML: {problem}") from None


# The faults


def _explain(model: type[BaseModel], item: dict[str, Any], layers: Sequence[Layer]) -> str:
    name = ".".join(str(part) for part in item["loc"])
    # The highest layer that sets the name, or a part of it, is at fault.
    origin = next((la for la in reversed(layers) if any(_same(name, n) for n, _ in flatten(la.values))), None)
    where = f" (set by {origin.place(name)})" if origin else ""
    if item["type"] == "extra_forbidden":
        if successor := removed(name):
            return f"{name}: is no setting any more{where}: {successor}"
        return f"{name}: unknown setting{where}{nearest(name, leaves(model))}"
    if successor := removed(name, item["input"]):
        value = item["input"][0] if isinstance(item["input"], list) else item["input"]
        return f"{name}: {quoted(value)} is no value any more{where}: {successor}"
    if item["type"] == "missing":
        return f"{name}: this setting is required"
    message = str(item["msg"]).removeprefix("Value error, ")
    # A whole section would bury the message, and may hold secrets.
    secret = isinstance(item.get("ctx", {}).get("error"), UnshownError)
    unshown = isinstance(item["input"], Mapping | BaseModel) or secret
    got = "" if unshown else f", got {redacted(quoted(item['input']))}"
    return f"{name or 'settings'}: {message}{got}{where}"


def _same(name: str, other: str) -> bool:
    return name == other or other.startswith(f"{name}.") or name.startswith(f"{other}.")
