"""Reading golden queries, from files, the hub or memory: every row is validated, then they become a `GoldenSet`."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import ValidationError

from evals.cases.case import Case, Evidence
from evals.cases.rows import Row, hub_rows, rows_in_memory, rows_of
from evals.config.experiment import DatasetConfig
from evals.errors import DatasetError
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
        config: A file, a folder, or a hub id with a pinned revision (see `rows_of`); which split, ids, how many.

    Raises:
        DatasetError: The data has faults, listed with file and line, or no case is left to run.
    """
    if config.hub is None and config.path is None:
        raise DatasetError("no golden data: set dataset.path (a .jsonl file or a folder of them) or dataset.hub")
    cases, places = validate_rows(hub_rows(config) if config.hub else rows_of(Path(str(config.path))))
    return _chosen(cases, places, config.hub or str(config.path), config)


def golden_set(data: "GoldenData", config: DatasetConfig | None = None) -> GoldenSet:
    """Return golden queries from any of the supported containers.

    Args:
        data: A file or folder (see `rows_of`), rows with the fields of `Case` or with ragas' columns (a row without
            `id` is named by its number), a DataFrame or Hugging Face dataset with those columns, or golden queries that
            are loaded already.
        config: The split, ids and number of cases to keep; all when left out.

    Raises:
        DatasetError: The data has faults; the message lists each with its row.
    """
    settings = config or DatasetConfig()
    if isinstance(data, GoldenSet):
        return _chosen(data.cases, data.places, data.name, settings)
    if isinstance(data, str | Path):
        return load_golden(settings.model_copy(update={"path": Path(data), "hub": None}))
    return _chosen(*validate_rows(rows_in_memory(data)), type(data).__name__, settings)


def validate_rows(rows: Iterable[Row]) -> tuple[tuple[Case, ...], dict[str, str]]:
    """Turn rows into cases; one without an id is named by its number.

    Raises:
        DatasetError: Listing every fault of every row.
    """
    cases: list[Case] = []
    faults: list[str] = []
    places: dict[str, str] = {}
    for number, (place, row) in enumerate(rows, 1):
        if isinstance(row, Exception):
            faults.append(f"{place}: {row}")
            continue
        try:
            case = Case.model_validate(row if isinstance(row, Case) else {"id": f"q{number:03d}", **row})
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
    chosen = [case for case in cases if (case.id in ids if ids else not config.split or case.split == config.split)]
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


def _chosen(cases: Sequence[Case], places: Mapping[str, str], name: str, config: DatasetConfig) -> GoldenSet:
    chosen = choose(cases, config)
    return GoldenSet(cases=chosen, places=places, name=name, fingerprint=fingerprint(chosen))


def _content(case: Case) -> dict[str, Any]:
    return case.model_dump(mode="json", exclude={"labelling", *(() if case.human_verdicts else ("human_verdicts",))})
