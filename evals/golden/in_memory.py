"""Golden queries in memory: dictionaries, a DataFrame or a Hugging Face dataset."""

from collections.abc import Iterable, Mapping
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from evals.config.experiment import DatasetConfig
from evals.errors import DatasetError
from evals.golden.case import Case
from evals.golden.loading import BY_CHUNK, GoldenSet, choose, fingerprint, load_golden, validate_rows
from retrievers.config.guarded_json import load

if TYPE_CHECKING:
    from datasets import Dataset
    from pandas import DataFrame

    GoldenData: TypeAlias = GoldenSet | str | Path | Iterable[Mapping[str, Any] | Case] | DataFrame | Dataset


def golden_set(data: "GoldenData", config: DatasetConfig | None = None) -> GoldenSet:
    """Return golden queries from any of the supported containers.

    Args:
        data: A `.jsonl` file or a folder of them, rows with the fields of `Case` (a row without `id` is named by its
            number), a DataFrame or Hugging Face dataset with those columns, or golden queries that are loaded already.
        config: The split, ids and number of cases to keep; all when left out.

    Raises:
        DatasetError: The data has faults; the message lists each with its row.
    """
    settings = config or DatasetConfig()
    if isinstance(data, GoldenSet):
        cases, places, name = data.cases, data.places, data.name
    elif isinstance(data, str | Path):
        return load_golden(settings.model_copy(update={"path": Path(data), "hub": None}))
    else:
        cases, places = validate_rows(_rows(data))
        name = type(data).__name__
    chosen = choose(cases, settings)
    return GoldenSet(cases=chosen, places=places, name=name, fingerprint=fingerprint(chosen))


def _rows(data: Any) -> Iterable[tuple[str, Any]]:
    rows = data.to_dict("records") if hasattr(data, "iterrows") else data
    if isinstance(rows, Mapping) or not isinstance(rows, Iterable):
        raise DatasetError(
            f"expected golden queries as a path, a list of dictionaries, a DataFrame or a dataset, got "
            f"{type(data).__name__}"
        )
    for number, row in enumerate(rows):
        line = f"row {number}"
        if isinstance(row, Case):
            yield line, row
        elif isinstance(row, Mapping):
            values = {name: _plain(value) for name, value in row.items() if not _missing(value)}
            try:
                values |= {name: load(values[name]) for name in BY_CHUNK if isinstance(values.get(name), str)}
            except ValueError as error:
                yield line, error
                continue
            yield line, {"id": f"q{number + 1:03d}", **values}
        else:
            yield line, ValueError(f"expected a dictionary, got {type(row).__name__}")


def _plain(value: Any) -> Any:
    """Return the value in the types of JSON, without the empty fields that a table adds."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items() if not _missing(inner)}
    # numpy's arrays and numbers.
    if hasattr(value, "tolist"):
        value = value.tolist()
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and isnan(value))
