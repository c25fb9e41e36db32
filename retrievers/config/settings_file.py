"""Settings from a YAML file: each at most once, each with its line."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel

from retrievers.config.guarded_yaml import YamlFault
from retrievers.config.layers import Layer, above, flatten, is_path, leaves, nest, tables
from retrievers.config.paths import without_mark
from retrievers.config.text_files import read_text
from retrievers.config.yaml_files import load_with_lines
from retrievers.errors import ConfigError
from retrievers.text.quoting import quoted

# Largest file of settings: it is read within a second.
MOST_BYTES = 100_000
# Parts of a dotted name; no setting has more than four.
MOST_PARTS = 10


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
        values, lines = load_with_lines(read_text(path, "a YAML file of settings", MOST_BYTES))
    except YamlFault as fault:
        raise ConfigError(f"{path}:{fault.line}: not valid YAML: {fault.problem}") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: expected a mapping of settings, got {quoted(values)}")
    # An experiment is read for its retriever, where that is what is wanted.
    if isinstance(values.get("retriever"), dict) and "retriever" not in model.model_fields:
        values = values["retriever"]
        lines = {name.removeprefix("retriever."): line for name, line in lines.items()}
    layer = Layer(label=str(path), values=values, lines=lines)
    flat = _flat(layer, model)
    for name, info in leaves(model).items():
        if is_path(info) and isinstance(flat.get(name), str):
            mark, written = without_mark(flat[name])
            if not written.startswith("~"):
                flat[name] = mark + _resolved(written, path.parent, folders)
    return Layer(label=layer.label, values=nest(flat), lines=lines)


def _flat(layer: Layer, model: type[BaseModel]) -> dict[str, Any]:
    """Return the settings of a layer by their dotted names.

    Raises:
        ConfigError: A name has far too many parts, or is given twice, dotted and nested.
    """
    flat: dict[str, Any] = {}
    for name, value in flatten(layer.values, unopened=tables(model)):
        if name.count(".") >= MOST_PARTS:
            raise ConfigError(f"{layer.place(name)}: {quoted(name)}: unknown setting, of more than {MOST_PARTS} parts")
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
