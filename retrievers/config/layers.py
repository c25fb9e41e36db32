"""Settings from layers: flags over experiment file over environment over `.env` over defaults.

A layer is a nested dict with a label; `build` merges them, validates the whole and reports every fault at once,
with the value, where it came from and what was expected.
"""

import argparse
from collections import abc
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType, NoneType, UnionType
from typing import Any, TypeVar, get_args

from dotenv import dotenv_values
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from retrievers.config import TABLE, UnshownError
from retrievers.config.outdated_settings import drop_outdated
from retrievers.config.paths import without_mark
from retrievers.config.removed import removed
from retrievers.config.text_files import read_text
from retrievers.config.yaml_files import YamlFault, load, load_flag
from retrievers.errors import ConfigError, nearest
from retrievers.records import Distance
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
# Largest file of settings: it is read within a second.
MOST_BYTES = 1_000_000


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
        values, lines = load(read_text(path, "a YAML file of settings", MOST_BYTES))
    except YamlFault as fault:
        raise ConfigError(f"{path}:{fault.line}: not valid YAML: {fault.problem}") from None
    if not isinstance(values, dict):
        found = "and the file is empty" if values is None else f"got {quoted(values)}"
        raise ConfigError(f"{path}: expected a mapping of settings, {found}")
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
                flat[name] = mark + _resolved(written, path.parent, folders)
    return Layer(label=layer.label, values=nest(flat), lines=lines)


def build(model: type[Model], layers: Sequence[Layer]) -> Model:
    """Merge layers, lowest first, and validate the whole.

    Raises:
        ConfigError: A setting has a fault; a line for each: setting, value, where it was set, what was expected.
    """
    merged: dict[str, Any] = {}
    for layer in layers:
        values = dict(flatten(layer.values, unopened=tables(model)))
        # Before the merge, while the layer of each value is still known.
        drop_outdated(merged, values)
        _refuse_other_scale(merged, values, layer, layers)
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


def add_flags(parser: argparse.ArgumentParser, model: type[BaseModel]) -> None:
    """Give the parser a dotted flag for every setting of the model."""
    groups: dict[str, argparse._ArgumentGroup] = {}
    for name, info in leaves(model).items():
        title = name.rpartition(".")[0] or "settings"
        group = groups.setdefault(title, parser.add_argument_group(title))
        default = info.get_default(call_default_factory=True) if not info.is_required() else None
        shown = (
            ""
            if default in (None, "", ()) or isinstance(default, BaseModel | dict)
            else f" (default: {_plain(default)})"
        )
        group.add_argument(
            f"--{name.replace('_', '-')}",
            dest=name,
            # A missing flag stays out of the namespace, so that no default of it overrides lower layers.
            default=argparse.SUPPRESS,
            metavar=name.rpartition(".")[2].upper(),
            help=((info.description or "") + shown).replace("%", "%%"),
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


def _resolved(path: str, beside: Path, folders: Mapping[str, Path]) -> str:
    """Resolve a path against the folder it names, or else `beside`; leave an invalid one for its setting to refuse."""
    name, _, rest = path.partition(":")
    folder, path = (folders[name], rest) if name in folders else (beside, path)
    try:
        return str((folder / path).resolve())
    except (OSError, ValueError, RuntimeError):
        return path


def _refuse_other_scale(
    merged: Mapping[str, Any], values: Mapping[str, Any], layer: Layer, layers: Sequence[Layer]
) -> None:
    """Refuse a threshold of a lower layer, on the scale of that layer, where this one names another distance.

    Raises:
        ConfigError: Names both, and what to set.
    """
    for name in ("distance", "retriever.distance"):
        threshold = name.removesuffix("distance") + "threshold"
        lower = merged.get(threshold)
        if values.get(name) not in get_args(Distance) or merged.get(name, "cosine") == values[name]:
            continue
        if lower in (None, "default") or threshold in values:
            continue
        if removed(name, values[name]):  # which the check of the whole says
            continue
        origin = next(la for la in reversed(layers) if threshold in dict(flatten(la.values)))
        raise ConfigError(
            f"{threshold}: {lower} (set by {origin.place(threshold)}) is no threshold of the distance {values[name]!r} "
            f"(set by {layer.place(name)}); set one of that distance there, too, or `default` for none"
        )


def _plain(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _types(annotation: Any) -> Iterable[Any]:
    yield annotation
    for argument in get_args(annotation):
        yield from _types(argument)


def _parse(name: str, raw: str, info: FieldInfo) -> Any:
    if raw == "null" and NoneType in _types(info.annotation):
        return None
    if info.json_schema_extra == TABLE and isinstance(info.annotation, UnionType):
        return _text_or_mapping(name, raw)
    structured = {list, tuple, dict, Mapping, Sequence}
    origins = {getattr(kind, "__origin__", kind) for kind in _types(info.annotation)}
    # pydantic converts numbers and booleans from text, with the setting's own message.
    if not origins & (structured | {abc.Mapping, abc.Sequence}):
        return raw
    try:
        # All scalars stay text: an id 12 is no number, `yes` no boolean.
        value = load_flag(raw)
    except YamlFault as error:
        raise ConfigError(f"--{name.replace('_', '-')}: {quoted(raw)} is not valid YAML: {error}") from error
    if isinstance(value, str) and origins & {list, tuple, abc.Sequence}:
        return [part.strip() for part in value.split(",")]
    return value


def _text_or_mapping(name: str, raw: str) -> Any:
    """Parse a mapping, with its numbers as numbers, if the text begins with a brace; else return the text."""
    if not raw.lstrip().startswith("{"):
        return raw
    try:
        return load(raw)[0]
    except YamlFault as error:
        raise ConfigError(f"--{name.replace('_', '-')}: {quoted(raw)} is not valid YAML: {error}") from error


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
    unshown = isinstance(item["input"], Mapping | BaseModel) or isinstance(_cause(item), UnshownError)
    got = "" if unshown else f", got {redacted(quoted(item['input']))}"
    return f"{name or 'settings'}: {message}{got}{where}"


def _cause(item: Mapping[str, Any]) -> object:
    """Return the error that the failed check raised."""
    return item.get("ctx", {}).get("error")


def _same(name: str, other: str) -> bool:
    return name == other or other.startswith(f"{name}.") or name.startswith(f"{other}.")
