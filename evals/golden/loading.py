"""Loading golden queries, from files, the hub or memory: every row is validated, then they become a `GoldenSet`."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import ValidationError

from evals.config.experiment import DatasetConfig
from evals.errors import DatasetError
from evals.golden.case import Case, Evidence
from retrievers.config.files import load_json, read_text
from retrievers.errors import nearest
from retrievers.text.quoting import clipped, quoted

if TYPE_CHECKING:
    from datasets import Dataset
    from pandas import DataFrame

    GoldenData: TypeAlias = "GoldenSet | str | Path | Iterable[Mapping[str, Any] | Case] | DataFrame | Dataset"

LABELS = {"query_type", "tags", "split"}
MAX_FAULTS_SHOWN = 50
MAX_IDS_SHOWN = 5
# Fields whose keys are chunk ids. A table would make a column of each key, so there they are JSON text.
BY_CHUNK = ("relevant_ids", "human_verdicts")
# Largest file: hundreds of thousands of queries.
MOST_BYTES = 100_000_000


@dataclass(frozen=True, kw_only=True)
class GoldenSet:
    """Golden queries ready for a run.

    Attributes:
        cases: The chosen cases, in file order.
        places: Case id to `file:line`, for messages.
        name: Origin of the cases, for messages.
        fingerprint: SHA-256 over the chosen cases' content, independent of file, order of keys and formatting.
    """

    cases: tuple[Case, ...]
    places: Mapping[str, str]
    name: str
    fingerprint: str

    def to_huggingface(self) -> "Dataset":
        """Return the cases as a Hugging Face dataset, one row a case."""
        from datasets import Dataset

        return Dataset.from_list(
            [case.model_dump() | {name: json.dumps(getattr(case, name)) for name in BY_CHUNK} for case in self.cases]
        )

    def to_ragas(self) -> list[dict[str, Any]]:
        """Return the cases in scope as rows of ragas' `EvaluationDataset`; quotes are the reference contexts."""
        rows = [
            {
                "user_input": case.query,
                "reference": case.reference_answer,
                "reference_contexts": [evidence.quote for evidence in case.relevant_evidence if evidence.quote],
                "reference_context_ids": list(case.relevant),
            }
            for case in self.cases
            if case.in_scope
        ]
        return [{name: value for name, value in row.items() if value} for row in rows]


def load_golden(config: DatasetConfig) -> GoldenSet:
    """Read, validate and choose cases.

    Args:
        config: A local file or folder of JSON Lines, or a hub id with a pinned revision; which split, ids, how many.

    Raises:
        DatasetError: The file has faults, listed with file and line, or no case is left to run.
    """
    rows = list(_hub_rows(config) if config.hub else _file_rows(config.path))
    cases, places = validate_rows(rows)
    chosen = choose(cases, config)
    return GoldenSet(
        cases=chosen,
        places=places,
        name=config.hub or str(config.path),
        fingerprint=fingerprint(chosen),
    )


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


def validate_rows(rows: Iterable[tuple[str, Any]]) -> tuple[tuple[Case, ...], dict[str, str]]:
    """Turn (place, JSON value or error) pairs into cases.

    Raises:
        DatasetError: Listing every fault of every row.
    """
    cases: list[Case] = []
    faults: list[str] = []
    places: dict[str, str] = {}
    for place, row in rows:
        if isinstance(row, Exception):
            faults.append(f"{place}: {row}")
            continue
        try:
            case = Case.model_validate(row)
        except ValidationError as error:
            faults += [f"{place}: {explain(dict(item))}" for item in error.errors(include_url=False)]
            continue
        if case.id in places:
            faults.append(f"{place}: id {quoted(case.id)} is used already at {places[case.id]}")
            continue
        places[case.id] = place
        cases.append(case)
    if faults:
        raise refusal(faults)
    if not cases:
        raise DatasetError("the golden data holds no case")
    return tuple(cases), places


def refusal(faults: Sequence[str]) -> DatasetError:
    """Return the error that counts faults and lists the first ones."""
    more = [f"… and {len(faults) - MAX_FAULTS_SHOWN:,} more"] if len(faults) > MAX_FAULTS_SHOWN else []
    count = "1 fault" if len(faults) == 1 else f"{len(faults):,} faults"
    return DatasetError(f"{count} in the golden data:", [*faults[:MAX_FAULTS_SHOWN], *more])


def choose(cases: Sequence[Case], config: DatasetConfig) -> tuple[Case, ...]:
    """Select the cases of the configured split and ids, up to the limit, in file order.

    Raises:
        DatasetError: A split or id does not exist, or nothing is left.
    """
    splits = sorted({case.split for case in cases if case.split})
    if config.split and config.split not in splits:
        have = f"it has {', '.join(map(quoted, splits[:MAX_IDS_SHOWN]))}" if splits else "its cases name none"
        raise DatasetError(f"dataset.split: the golden data has no split {quoted(config.split)}: {have}")
    case_ids = {case.id for case in cases}
    unknown = [case_id for case_id in config.ids if case_id not in case_ids]
    if unknown:
        hint = nearest(unknown[0], (case.id for case in cases))
        more = f" and {len(unknown) - MAX_IDS_SHOWN} more" if len(unknown) > MAX_IDS_SHOWN else ""
        raise DatasetError(
            f"dataset.ids: no case with id {', '.join(map(quoted, unknown[:MAX_IDS_SHOWN]))}{more}{hint}"
        )
    ids = frozenset(config.ids)
    chosen = [case for case in cases if (case.id in ids if ids else config.split is None or case.split == config.split)]
    return tuple(chosen[: config.limit])


def case_fingerprint(case: Case) -> str:
    """Return the SHA-256 of all parts of a case that its scores can depend on.

    Not over what only sorts it (`LABELS`), nor over human verdicts, which correct a mean and no query's own score, nor
    over the origin of its labels.
    """
    row = case.model_dump(mode="json", exclude=LABELS | {"human_verdicts", "labelling"})
    return hashlib.sha256(json.dumps(row, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def fingerprint(cases: Sequence[Case]) -> str:
    """Return the SHA-256 of the content of cases, in the order of their ids.

    `human_verdicts` count only where there are any: cases without keep the fingerprint they had before the field was.
    The origin of labels does not count.
    """
    rows = sorted((_content(case) for case in cases), key=lambda row: str(row["id"]))
    text = json.dumps(rows, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _content(case: Case) -> dict[str, Any]:
    return case.model_dump(mode="json", exclude={"labelling", *(() if case.human_verdicts else ("human_verdicts",))})


def _file_rows(path: Path | None) -> Iterator[tuple[str, Any]]:
    if path is None:
        raise DatasetError("no golden data: set dataset.path (a .jsonl file or a folder of them) or dataset.hub")
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    if not files:
        raise DatasetError(f"{path}: holds no .jsonl file")
    for file in files:
        text = read_text(file, "a JSON Lines file", MOST_BYTES, DatasetError)
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                yield f"{file}:{number}", _parse(line)


def _parse(line: str) -> Any:
    try:
        value = load_json(line)
    except ValueError as error:
        return error
    return value if isinstance(value, dict) else ValueError(f"expected a JSON object, got {quoted(value)}")


def _hub_rows(config: DatasetConfig) -> Iterator[tuple[str, Any]]:
    from datasets import load_dataset

    try:
        rows = load_dataset(config.hub, revision=config.revision, split="train")
    except Exception as error:  # the hub client has many; the cause is kept in the message
        raise DatasetError(
            f"dataset.hub {config.hub!r} at revision {config.revision!r} cannot be loaded: "
            f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
        ) from error
    for number, row in enumerate(rows, 1):
        values = _present(row)
        values |= {name: _parse(values[name]) for name in BY_CHUNK if isinstance(values.get(name), str)}
        bad = next((values[name] for name in BY_CHUNK if isinstance(values.get(name), Exception)), None)
        yield f"{config.hub}:{number}", bad or values


def _present(value: Any) -> Any:
    """Remove the nulls that a table holds where a row leaves a field out."""
    if isinstance(value, dict):
        return {key: _present(inner) for key, inner in value.items() if inner is not None}
    return [_present(inner) for inner in value] if isinstance(value, list) else value


def explain(item: dict[str, Any]) -> str:
    """Put one fault that pydantic found in a case into words."""
    name = clipped(".".join(str(part) for part in item["loc"]))
    if item["type"] == "extra_forbidden":
        fields = (Evidence if item["loc"][0] == "evidence" else Case).model_fields
        return f"{name}: unknown field{nearest(str(item['loc'][-1]), fields)}"
    if item["type"] == "missing":
        return f"{name}: this field is required"
    message = str(item["msg"]).removeprefix("Value error, ")
    got = "" if isinstance(item["input"], dict) else f", got {quoted(item['input'])}"
    return f"{name + ': ' if name else ''}{message}{got}"


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
                values |= {name: load_json(values[name]) for name in BY_CHUNK if isinstance(values.get(name), str)}
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
