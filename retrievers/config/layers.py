"""Settings from layers: flags over experiment file over environment over `.env` over defaults.

A layer is a nested dict with a label. `build` merges the layers, validates the whole, and reports all faults at once.
Each fault has the value, the layer that set it, and what was expected.
"""

import argparse
import os
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from types import MappingProxyType, NoneType
from typing import Any, TypeVar, get_args, get_origin

import yaml
from dotenv import dotenv_values
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from retrievers.config import TABLE, Settings
from retrievers.config.files import packaged_yaml, read_text
from retrievers.config.settings import UnshownError
from retrievers.errors import ConfigError, MissingKeyError, nearest
from retrievers.text.shown import quoted, redacted, remember, remember_environment

Model = TypeVar("Model", bound=Settings)
# Environment variables that set a setting of the retriever if no file does. No other variable does.
ENVIRONMENT: Mapping[str, str] = {
    "QDRANT_URL": "store.url",
    "RAG_DEFAULT_COLLECTION": "collection",
    "RAG_DEFAULT_TOP_K": "top_k",
    "RAG_SIMILARITY_THRESHOLD": "threshold",
    "RAG_SEARCH_MODE": "mode",
}
# Settings of a model that have no meaning for another model.
OF_MODEL = frozenset(("base_url", "query_prefix", "document_prefix", "options"))
MOST_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Layer:
    """Nested settings and where they came from, for error messages."""

    label: str
    values: Mapping[str, Any]


# The layers


def environment(environ: Mapping[str, str], dotenv: Path = Path(".env")) -> dict[str, str]:
    """Return the environment, completed by the variables of a `.env` file that it lacks. Neither is changed.

    From now on its keys and passwords are hidden in all that is shown (see `retrievers.text.shown`).

    Raises:
        ConfigError: The file cannot be read.
    """
    try:
        variables = dotenv_values(dotenv, encoding="utf-8-sig") if dotenv.is_file() else {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{dotenv}: cannot be read ({error}); expected a .env file of NAME=value lines") from None
    env = {**{name: value for name, value in variables.items() if value is not None}, **environ}
    remember_environment(env)
    return env


def api_key(env: Mapping[str, str], name: str) -> str | None:
    """Return an API key from the environment, without a line break at its end; None if there is no key.

    From now on the key is hidden in all that is shown.
    """
    key = env.get(name, "").strip()
    remember(key)
    return key or None


def provider_key(
    model: str, variable: str | None, env: Mapping[str, str], otherwise: str, *, is_own_server: bool = False
) -> str | None:
    """Return the API key of a model's provider; None if the provider has no key.

    Args:
        model: Name of the model, for the message.
        variable: The variable of the environment that holds the key; empty or None if the provider has no key.
        env: The environment.
        otherwise: What a user can do without a key.
        is_own_server: True for a server of one's own that speaks OpenAI's protocol. It needs no key.

    Raises:
        MissingKeyError: The key is not in the environment.
    """
    key = api_key(env, variable) if variable else None
    if key or not variable:
        return key
    if is_own_server:
        return "none"
    needed = f"{model} needs an API key: expected it in {variable}"
    raise MissingKeyError(f"{needed}, which is not set; export it or write it into .env, or {otherwise}")


def environment_layer(env: Mapping[str, str], prefix: str = "") -> Layer:
    """Return the settings of the retriever that the environment sets. `prefix` is put before their names."""
    values = {prefix + setting: env[name] for name, setting in ENVIRONMENT.items() if env.get(name)}
    return Layer(label="the environment", values=nest(values))


def file_layer(
    path: Path, model: type[Settings], folders: Mapping[str, Path] = MappingProxyType({}), *, served: bool = False
) -> Layer:
    """Read the settings of a YAML file. Relative paths start at the folder of the file; `~` stays as it is.

    Args:
        path: The file.
        model: Model of the settings.
        folders: Folders by names that a path may begin with: `name:rest` is the path `rest` in that folder.
        served: The retriever is to answer questions. An experiment whose run chooses its settings is then refused.

    Raises:
        ConfigError: The file cannot be read, is not YAML, is not a mapping, has a name twice, or is refused.
    """
    values = _load(read_text(path, "a YAML file of settings", MOST_BYTES), str(path))
    if not isinstance(values, dict):
        actual = "and the file is empty" if values is None else f"got {quoted(values)}"
        raise ConfigError(f"{path}: expected a mapping of settings, {actual}")
    # If settings of a retriever are expected, those of an experiment's retriever are read.
    if isinstance(values.get("retriever"), dict) and {"retriever", "judge"}.isdisjoint(model.model_fields):
        if served and (left := [name for name in ("threshold", "sweep") if values.get(name)]):
            chosen = f"{path}: its run chooses settings of the retriever ({left[0]})"
            raise ConfigError(f"{chosen}; expected the file that the run writes (--export retriever.yaml)")
        values = values["retriever"]
    flat = dict(flatten(values, unopened=tables(model)))
    for name, info in leaves(model).items():
        if Path in _types(info) and isinstance(flat.get(name), str):
            written = flat[name]
            folder, _, rest = written.partition(":")
            inside = folders[folder] / rest if folder in folders else path.parent / written
            if written and not written.startswith(("~", "local:")):
                flat[name] = os.path.abspath(inside)  # noqa: PTH100 - does not fail for an impossible name of a file
    return Layer(label=str(path), values=nest(flat))


def add_flags(parser: argparse.ArgumentParser, model: type[Settings]) -> None:
    """Add a flag with a dotted name for every setting of the model."""
    groups: dict[str, argparse._ArgumentGroup] = {}
    for name, info in leaves(model).items():
        title = name.rpartition(".")[0] or "settings"
        group = groups.setdefault(title, parser.add_argument_group(title))
        default, flag, metavar = default_text(info), f"--{name.replace('_', '-')}", name.rpartition(".")[2].upper()
        about = f"{info.description}{f' (default: {default})' if default else ''}".replace("%", "%%")
        # A missing flag stays out of the namespace, so that no default overrides a lower layer.
        action = group.add_argument(flag, dest=name, default=argparse.SUPPRESS, metavar=metavar, help=about)
        # The setting's name with underscores, as in files, is a flag as well. The help does not show it.
        parser._option_string_actions[f"--{name}"] = action


def default_text(info: FieldInfo) -> str:
    """Return the default of a setting as text; empty if it has none."""
    default = None if info.is_required() else info.get_default(call_default_factory=True)
    values = default if isinstance(default, list | tuple) else [default]
    return ", ".join(str(value) for value in values if value is not None and not isinstance(value, Settings | dict))


def flag_layer(namespace: argparse.Namespace, model: type[Settings]) -> Layer:
    """Return the settings given as flags.

    Lists and mappings are YAML (`[a, b]`, `{a: b}`). A list may also be written as `a, b`. As in a file, `null` unsets
    a setting that may be left out.

    Raises:
        ConfigError: A list or mapping is not valid YAML.
    """
    settings = leaves(model)
    values = {name: _flag(name, raw, settings[name]) for name, raw in vars(namespace).items() if name in settings}
    return Layer(label="the command line", values=nest(values))


# The merge


def build(model: type[Model], layers: Sequence[Layer]) -> Model:
    """Merge layers, the lowest first, and validate the whole.

    Raises:
        ConfigError: Settings have faults. The message has a line for each: setting, expectation, value and layer.
    """
    merged: dict[str, Any] = {}
    idle_beside, left_out = _idle_beside(model), dict[str, str]()
    for layer in layers:
        values = dict(flatten(layer.values, unopened=tables(model)))
        left_out = {name: text for name, text in left_out.items() if name not in values}
        for name, others in model.holds_for.items():
            moved = [other for other in others if other in values and not _same(values[other], merged.get(other))]
            if moved and merged.get(name) and name not in values:
                was = merged.get(moved[0])
                of = f"{moved[0]} {'unset' if was is None else was}"
                left_out[name] = f"{name} {Path(merged.pop(name)).name} left out: it is of {of}"
        merged = {n: value for n, value in merged.items() if not _is_dropped(n, merged, values, idle_beside)} | values
    try:
        settings = model.model_validate(nest(merged))
        settings.left_out.update(left_out)
        return settings
    except ValidationError as error:
        faults = [_explain(model, dict(item), layers) for item in error.errors(include_url=False)]
        raise ConfigError("\n".join(faults)) from None


def given_settings(settings: Model, changes: Mapping[str, Any], *, on_top: bool = False) -> Model:
    """Return settings with the changes that a caller gave as arguments.

    Args:
        settings: The settings.
        changes: Nested settings.
        on_top: The changes are a layer above the settings, of which they drop some, as flags do. Else they are of the
            same layer, and replace whole sections.

    Raises:
        ConfigError: Settings have faults, as in `build`.
    """
    own = _set(settings)
    values = [own, changes] if on_top else [{**own, **changes}]
    built = build(type(settings), [Layer(label="the arguments", values=each) for each in values])
    built.left_out.update(settings.left_out)
    return built


def _set(settings: Settings) -> dict[str, Any]:
    """Return the settings that were set, nested; also unknown ones, which pydantic checks in no copy."""
    values = ((name, value) for name, value in vars(settings).items() if name in settings.model_fields_set)
    return {name: _set(value) if isinstance(value, Settings) else value for name, value in values}


def _idle_beside(model: type[Settings], prefix: str = "") -> dict[str, list[str]]:
    """Return `Settings.idle_beside` of a model and its sections, with dotted names."""
    idle = {prefix + name: [prefix + other for other in others] for name, others in model.idle_beside.items()}
    for name, info in model.model_fields.items():
        if isinstance(info.annotation, type) and issubclass(info.annotation, Settings):
            idle |= _idle_beside(info.annotation, f"{prefix}{name}.")
    return idle


def _is_dropped(
    name: str, merged: Mapping[str, Any], values: Mapping[str, Any], idle_beside: Mapping[str, Sequence[str]]
) -> bool:
    """Return True if the values of a higher layer replace a merged setting, or if it has no meaning beside them."""
    if any(_overlaps(name, other) for other in values):
        return True
    group, _, last = name.rpartition(".")
    if last in OF_MODEL and (model := values.get(f"{group}.model")):
        # Another model of the same provider is asked at the same address.
        provider = str(merged.get(f"{group}.model")).partition(":")[0]
        return last != "base_url" or provider != str(model).partition(":")[0]
    named = {other for other, value in values.items() if value is not None}
    return any(_overlaps(name, idle) and not named.isdisjoint(others) for idle, others in idle_beside.items())


def _same(value: Any, other: Any) -> bool:
    """Return True if two values are equal, or the same path."""
    if isinstance(value, str | Path) and isinstance(other, str | Path):
        return os.path.abspath(value) == os.path.abspath(other)  # noqa: PTH100 - as in `file_layer`
    return bool(value == other)


def _overlaps(name: str, other: str) -> bool:
    return name == other or other.startswith(f"{name}.") or name.startswith(f"{other}.")


def leaves(model: type[Settings], prefix: str = "") -> dict[str, FieldInfo]:
    """Return all settings of a model and its sections by dotted name."""
    settings: dict[str, FieldInfo] = {}
    for name, info in model.model_fields.items():
        inner = info.annotation
        if isinstance(inner, type) and issubclass(inner, Settings):
            settings |= leaves(inner, f"{prefix}{name}.")
        else:
            settings[prefix + name] = info
    return settings


def tables(model: type[Settings]) -> frozenset[str]:
    """Return the names of the settings that are marked as a `TABLE`."""
    return frozenset(name for name, info in leaves(model).items() if info.json_schema_extra == TABLE)


def flatten(values: Mapping[str, Any], prefix: str = "", unopened: Container[str] = ()) -> Iterator[tuple[str, Any]]:
    """Yield dotted names and values of nested mappings. Empty mappings and those in `unopened` are values."""
    for key, value in values.items():
        if isinstance(value, Mapping) and value and f"{prefix}{key}" not in unopened:
            yield from flatten(value, f"{prefix}{key}.", unopened)
        else:
            yield f"{prefix}{key}", value


def nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested mappings from dotted names: the inverse of `flatten`."""
    tree: dict[str, Any] = {}
    for name, value in flat.items():
        *parents, last = name.split(".")
        reduce(lambda node, parent: node.setdefault(parent, {}), parents, tree)[last] = value
    return tree


# YAML


class _Settings(yaml.SafeLoader):
    """The safe loader, which refuses repeated keys. As in YAML 1.2 it has no numbers of base 60: `1:20` is a range."""

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
    except (ValueError, RecursionError, yaml.YAMLError) as error:  # ValueError: an impossible date
        mark = getattr(error, "problem_mark", None)
        line, problem = f":{mark.line + 1}" if mark else "", getattr(error, "problem", None) or error
        raise ConfigError(f"{where}{line}: not valid YAML: {problem}") from None


def _types(info: FieldInfo) -> set[Any]:
    """Return all types in the annotation of a setting. Generic types are replaced by their origin."""
    annotations: list[Any] = [info.annotation]
    for annotation in annotations:
        annotations += get_args(annotation)
    return {get_origin(annotation) or annotation for annotation in annotations}


def _flag(name: str, raw: str, info: FieldInfo) -> Any:
    kinds = _types(info)
    if raw == "null" and (NoneType in kinds or info.default == ""):
        return "" if info.default == "" else None
    is_list = not kinds.isdisjoint({list, tuple, Sequence}) and Mapping not in kinds
    if raw.lstrip().startswith(("{", "[") if is_list else "{") and (is_list or Mapping in kinds):
        return _load(raw, f"--{name.replace('_', '-')} {quoted(raw)}")
    # pydantic converts numbers and booleans from text, with the setting's own message.
    return [part.strip() for part in raw.split(",")] if is_list else raw


# The faults


def _explain(model: type[Settings], item: dict[str, Any], layers: Sequence[Layer]) -> str:
    name, value = ".".join(map(str, item["loc"])).removesuffix(".[key]"), item["input"]
    # The highest layer that sets the name, or a part of it, is at fault.
    setters = [layer.label for layer in layers if any(_overlaps(name, other) for other, _ in flatten(layer.values))]
    where = f" (set by {setters[-1]})" if setters else ""
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
    text, shown = str(item["msg"]).removeprefix("Value error, "), redacted(quoted(value))
    told = f"got {shown}" in text or ", got '" in text  # the latter of a part of the value
    got = "" if secret or told or isinstance(value, Mapping | Settings) else f", got {shown}"
    return f"{name or 'settings'}: {text}{got}{where}"


def removed(name: str, value: object = None) -> str:
    """Return what replaced a setting, flag, metric or subcommand of an earlier version; empty if it was not removed.

    Args:
        name: The dotted name of a setting, with or without `retriever.`; a flag with its dashes; a metric; or a
            subcommand as `retrieval-evals COMMAND`.
        value: The value of a setting, to ask whether that value was removed.
    """
    setting = re.sub(r"\.\d+$", "", name.removeprefix("--").replace("-", "_").removeprefix("retriever."))
    # `retrievers index` has the settings of indexing without their prefix.
    names = [name, setting, f"index.{setting}"]
    if value is None:
        names += [setting[: dot.start()] for dot in re.finditer(r"\.", setting)]
    else:
        [value] = value if isinstance(value, list) and len(value) == 1 else [value]
        # Other values are not formatted: by aliases, few bytes of YAML can make a list that no text can hold.
        names = [f"{name}={value}" for name in names] if isinstance(value, str) else []
    successors = packaged_yaml("retrievers.config", "removed.yaml")
    return next((str(successors[name]) for name in names if name in successors), "")
