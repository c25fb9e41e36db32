"""Reading golden queries: rows of files, folders, the hub or memory. Each is validated as a `Case` with its place."""

import ast
import csv
import io
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import ValidationError

from evals.cases.case import Case, Evidence
from evals.config.experiment import DatasetConfig
from evals.errors import DatasetError
from retrievers.config.files import load_json, read_text
from retrievers.errors import IndexingError, nearest
from retrievers.indexing.rows import json_rows
from retrievers.indexing.rows import rows_of as table_rows
from retrievers.text import digest
from retrievers.text.shown import clipped, quoted

if TYPE_CHECKING:
    from datasets import Dataset
    from pandas import DataFrame

    GoldenData: TypeAlias = "GoldenSet | str | Path | Iterable[Mapping[str, Any] | Case] | DataFrame | Dataset"

Row: TypeAlias = tuple[str, Any]
"""The place of a row, as `file:line`, and its fields by name or an error."""
# Size of the largest file that is read, with hundreds of thousands of queries.
MOST_BYTES = 100_000_000
MOST_FAULTS = 50
# Number of rows of the hub that are read at once.
BATCH = 512
MOST_SHOWN = 5
# Columns of a table that hold one piece of evidence; `contexts` are texts of passages.
OF_EVIDENCE = ("quote", "source_url", "heading", "grade")
FIELDS = (*Case.model_fields, *OF_EVIDENCE, "contexts")
# What says where labels come from, which no fingerprint counts.
ORIGIN: Mapping[str, Any] = {"labelling": True, "evidence": {"__all__": {"labelled"}}}
# Columns of ragas' testsets and evaluation datasets, and the field of each.
RAGAS = {
    "user_input": "query",
    "reference": "reference_answer",
    "reference_contexts": "contexts",
    "reference_context_ids": "relevant_ids",
    "synthesizer_name": "query_type",
}
# Fields that a table may hold as text, with the separator of items. The text may also be JSON or a Python list.
LISTS = {"tags": r"\s*[,;]\s*", "expected_topics": r"\s*[,;]\s*", "relevant_ids": r"[\s,;]+", "contexts": r"\Z"}
OBJECTS = ("evidence", "human_verdicts", "labelling")
# Queries and judgements of a BEIR folder.
QUERIES = "queries.jsonl"
QRELS = "qrels"
JUDGEMENT = re.compile(r"([^\t]+)\t([^\t]+)\t(-?\d{1,9})\s*", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class GoldenSet:
    """Golden queries ready for a run.

    Attributes:
        cases: The selected cases, in file order.
        places: Case id to `file:line`, for messages.
        name: Origin of the cases, for messages.
        fingerprint: SHA-256 of the content of the selected cases; it does not depend on file, order of keys and format.
        splits: All splits of the golden data, also of cases that are not selected.
    """

    cases: tuple[Case, ...]
    places: Mapping[str, str]
    name: str
    fingerprint: str
    splits: frozenset[str]


def load_golden(config: DatasetConfig, columns: Mapping[str, str] | None = None) -> GoldenSet:
    """Read, validate and select cases.

    Args:
        config: A file, a folder, or a hub id with a pinned revision (see `rows_of`). The split, ids and number of cases
            to keep.
        columns: Column to field, for a table with other names.

    Raises:
        DatasetError: The settings name no data. Or the data has faults, which the message lists with file and line. Or
            it has no case, or none of the split or of an id.
    """
    source = config.hub or config.path
    if source is None:
        raise DatasetError("no golden data: set dataset.path (a .jsonl file or a folder of them) or dataset.hub")
    return _select(*validate_rows(rows_of(source, config, columns)), str(source), config)


def golden_set(data: "GoldenData", config: DatasetConfig | None = None) -> GoldenSet:
    """Return golden queries from any of the supported containers.

    Args:
        data: A file or folder (see `rows_of`); rows with the fields of `Case` or with ragas' columns; a DataFrame or
            Hugging Face dataset with these columns; or loaded golden queries.
        config: The split, ids and number of cases to keep; all when left out.

    Raises:
        DatasetError: The data has faults. The message lists each with its row.
    """
    config = config or DatasetConfig()
    if isinstance(data, GoldenSet):
        return _select(data.cases, data.places, data.name, config)
    if isinstance(data, str | Path):
        return load_golden(config.model_copy(update={"path": Path(data), "hub": None}))
    return _select(*validate_rows(_rows_in_memory(data)), type(data).__name__, config)


def rows_of(source: str | Path, config: DatasetConfig, columns: Mapping[str, str] | None = None) -> Iterator[Row]:
    """Yield the rows of golden data with the fields of a case, in the order of the files' names.

    A file is JSON Lines, a JSON array, CSV (with comma, semicolon or tab) or Parquet. A folder has such files, or is
    one of BEIR (`queries.jsonl`, `qrels/test.tsv`). Rows with ragas' columns are recognised by `user_input`.

    Args:
        source: The file or folder; as text, the id of a dataset of the hub.
        config: Revision and split of a dataset of the hub; split of a BEIR folder.
        columns: Column to field, for a table with other names. Columns that are no field are then left out.

    Raises:
        DatasetError: The source cannot be read, holds no golden data, or has a column that is no field.
    """
    if isinstance(source, str):
        yield from _of_table(source, _hub_rows(source, config), columns)
    elif (source / QUERIES).is_file() and (source / QRELS).is_dir():
        yield from _beir_rows(source, config.split)
    else:
        files = [source]
        if source.is_dir():
            files = [file for file in sorted(source.iterdir()) if file.suffix.lower() in READERS]
        if not files:
            raise DatasetError(f"{source}: itself holds no {', '.join(READERS)} file, and is no folder of BEIR")
        for file in files:
            is_table = columns is not None or file.suffix.lower() in (".csv", ".tsv", ".parquet")
            rows = cells_of(file)
            yield from _of_table(file, rows, columns) if is_table else ((place, _fields(row)) for place, row in rows)


def validate_rows(rows: Iterable[Row]) -> tuple[tuple[Case, ...], dict[str, str]]:
    """Return the cases of rows, and the place of each case by its id. A row without an id is named by its number.

    Raises:
        DatasetError: There is no row, or rows have faults. The message lists them.
    """
    cases: dict[str, Case] = {}
    places: dict[str, str] = {}
    faults: list[str] = []
    for number, (place, row) in enumerate(rows, 1):
        if isinstance(row, Exception):
            faults.append(f"{place}: {row}")
            continue
        try:
            case = Case.model_validate(row if isinstance(row, Case) else {"id": f"q{number:03d}", **row})
        except ValidationError as error:
            faults += [f"{place}: {explain(dict(item))}" for item in error.errors(include_url=False)]
            continue
        if case.id in cases:
            faults.append(f"{place}: id {quoted(case.id)} is used already at {places[case.id]}")
        cases[case.id], places[case.id] = case, place
    if faults:
        raise refusal(faults)
    if not cases:
        raise DatasetError("the golden data holds no case")
    return tuple(cases.values()), places


def refusal(faults: Sequence[str]) -> DatasetError:
    """Return the error with the number of faults and a list of the first ones."""
    more = [f"… and {len(faults) - MOST_FAULTS:,} more"] if len(faults) > MOST_FAULTS else []
    count = "1 fault" if len(faults) == 1 else f"{len(faults):,} faults"
    return DatasetError(f"{count} in the golden data:", [*faults[:MOST_FAULTS], *more])


def explain(item: dict[str, Any]) -> str:
    """Return the message for one fault that pydantic found."""
    name = clipped(".".join(str(part) for part in item["loc"]))
    if item["type"] == "extra_forbidden":
        fields = Evidence.model_fields if item["loc"][0] == "evidence" else FIELDS
        return f"{name}: unknown field{nearest(str(item['loc'][-1]), fields)}"
    if item["type"] == "missing":
        return f"{name}: this field is required"
    message = {"bool_parsing": "expected true or false"}.get(item["type"], item["msg"]).removeprefix("Value error, ")
    got = "" if isinstance(item["input"], dict) else f", got {quoted(item['input'])}"
    return f"{name + ': ' if name else ''}{message}{got}"


def case_fingerprint(case: Case) -> str:
    """Return the SHA-256 of all parts of a case on which its scores can depend.

    Query type, tags and split are left out, as they only sort cases. Human verdicts are left out, as they correct a
    mean and not the score of a query. So is the origin of labels.
    """
    sorting = dict.fromkeys(("query_type", "tags", "split", "human_verdicts"), True)
    row = case.model_dump(mode="json", exclude={**ORIGIN, **sorting})
    return digest(json.dumps(row, sort_keys=True, ensure_ascii=False))


def fingerprint(cases: Sequence[Case]) -> str:
    """Return the SHA-256 of the content of cases, in the order of their ids.

    `human_verdicts` count only in cases that have some, so that other cases keep the fingerprint which they had before
    the field existed. The origin of labels does not count.
    """
    rows = [
        case.model_dump(mode="json", exclude={**ORIGIN, **({} if case.human_verdicts else {"human_verdicts": True})})
        for case in sorted(cases, key=lambda case: case.id)
    ]
    return digest(json.dumps(rows, sort_keys=True, ensure_ascii=False, separators=(",", ":")))


def _select(cases: Sequence[Case], places: Mapping[str, str], name: str, config: DatasetConfig) -> GoldenSet:
    """Return the cases of the configured ids, or else of the split, up to the limit, in file order.

    Raises:
        DatasetError: There is no case of the split, or of an id.
    """
    splits = frozenset(case.split for case in cases if case.split)
    if config.split and config.split not in splits:
        has = f"no split {quoted(config.split)}; it has {', '.join(map(quoted, sorted(splits))) or 'none'}"
        raise DatasetError(f"dataset.split: the golden data has {has}; null takes all cases")
    if unknown := [case_id for case_id in config.ids if case_id not in places]:
        first_ids = f"{', '.join(map(quoted, unknown[:MOST_SHOWN]))}{' …' * (len(unknown) > MOST_SHOWN)}"
        raise DatasetError(f"dataset.ids: no case with id {first_ids}{nearest(unknown[0], places)}")
    ids, split = frozenset(config.ids), config.split
    selected = [case for case in cases if (case.id in ids if ids else not split or case.split == split)]
    kept = tuple(selected[: config.limit])
    return GoldenSet(cases=kept, places=places, name=name, fingerprint=fingerprint(kept), splits=splits)


# Rows as they stand in a source: cells by column, or an error


def cells_of(file: Path) -> Iterator[Row]:
    """Yield the rows of a file without any change: JSON Lines or a JSON array, CSV, or Parquet.

    Raises:
        DatasetError: The file cannot be read.
    """
    if file.suffix.lower() in (".yaml", ".yml", ".xlsx"):
        raise DatasetError(f"{file}: expected JSON Lines, a JSON array, CSV, TSV or Parquet")
    return READERS.get(file.suffix.lower(), _json_rows)(file)


def _rows_in_memory(data: Any) -> Iterator[Row]:
    """Return the rows of a list, a DataFrame or a dataset.

    Raises:
        DatasetError: The data is something else.
    """
    data = data.to_list() if hasattr(data, "samples") else data  # ragas' datasets
    rows = data.to_dict("records") if hasattr(data, "iterrows") else data
    if isinstance(rows, Mapping) or not isinstance(rows, Iterable):
        got = type(data).__name__ + (f" of {', '.join(data)}; take one" if hasattr(data, "push_to_hub") else "")
        raise DatasetError(f"expected a path, dictionaries, a DataFrame or a dataset, got {got}")
    placed = ((f"row {number}", row) for number, row in enumerate(rows))
    if rows is not data or hasattr(data, "column_names"):
        return _of_table("the table", placed, None)
    return ((place, row if isinstance(row, Case) else _fields(row)) for place, row in placed)


def _json_rows(file: Path) -> Iterator[Row]:
    """Yield the values of JSON Lines, or the elements of one array."""
    text = read_text(file, "a JSON Lines file", MOST_BYTES, DatasetError)
    start = text.lstrip().partition("\n")[0].rstrip()
    if start[:1] == "[" or start == "{":
        try:
            document = load_json(text)
            if not isinstance(document, list):  # a report, for example
                raise ValueError("is one object over several lines")
        except ValueError as error:
            raise DatasetError(f"{file}: {error}; expected one JSON object a line, or one array of them") from None
        yield from ((f"{file}: element {number}", value) for number, value in enumerate(document, 1))
        return
    yield from ((f"{file}:{number}", value) for number, value in json_rows(file))


def _csv_rows(file: Path) -> Iterator[Row]:
    """Yield the cells of a CSV file, by the names in its first line."""
    text = read_text(file, "a CSV file", MOST_BYTES, DatasetError)
    text, skipped = re.subn(r"\Asep=.\r?\n", "", text)  # a line of Excel's
    delimiter = max(",;\t", key=text.partition("\n")[0].count)
    reader = csv.DictReader(io.StringIO(text, newline=None), delimiter=delimiter, strict=True)
    try:
        names = [name.strip() for name in reader.fieldnames or ()]
        if twice := next((name for name in names if name and names.count(name) > 1), None):
            raise DatasetError(f"{file}: has two columns {quoted(twice)}; rename one, or write a list into `evidence`")
        reader.fieldnames = names
        for row in reader:
            more: Any = row.pop(None, None)
            fault = ValueError(f"has {len(more or ()):,} more cells than the first line has names")
            cells = {name: cell for name, cell in row.items() if name}  # pandas' numbers of rows have no name
            if more or any(cells.values()):
                line_breaks = sum(cell.count("\n") for cell in cells.values() if cell)
                yield f"{file}:{skipped + reader.line_num - line_breaks}", fault if more else cells
    except csv.Error as error:
        yield f"{file}:{skipped + reader.line_num + 1}", ValueError(f"{error}; is a quotation mark not doubled?")


def _parquet_rows(file: Path) -> Iterator[Row]:
    """Yield the cells of a Parquet file by column."""
    try:
        for place, (_, cells) in table_rows(file):
            yield place, cells
    except (IndexingError, OSError) as error:
        raise DatasetError(str(error)) from error


def _hub_rows(name: str, config: DatasetConfig) -> list[Row]:
    """Return the rows of the configured split; without one, or if the dataset lacks it, those of `train`."""
    if config.split and config.split != "train":
        with suppress(DatasetError):  # the split may be a column of `train`
            return _rows_of_split(name, config.revision, config.split, {"split": config.split})
    return _rows_of_split(name, config.revision, "train", {"split": "train"} if config.split == "train" else {})


def _rows_of_split(name: str, revision: str | None, split: str, more: Mapping[str, str]) -> list[Row]:
    """Return the rows of a dataset of the hub, each with the fields of `more`."""
    # The library would report its use, and count the download.
    quiet = {"HF_HUB_DISABLE_TELEMETRY": "1", "DO_NOT_TRACK": "1", "HF_UPDATE_DOWNLOAD_COUNTS": "0"}
    os.environ.update(quiet | os.environ)
    from datasets import load_dataset

    try:
        dataset = load_dataset(name, revision=revision, split=split, streaming=True)
        # Cells are not decoded: a column of images may name addresses, which would be fetched.
        tables = dataset.with_format("arrow").iter(BATCH)
        rows = [row for table in tables for row in table.to_pylist()]
    except Exception as error:  # the library has many kinds
        raise DatasetError(f"hub:{name}: cannot be read: {type(error).__name__}: {error}") from error
    return [(f"hub:{name}:{number}", {**row, **more}) for number, row in enumerate(rows, 1)]


def _beir_rows(folder: Path, split: str | None) -> Iterator[Row]:
    """Yield the queries of a BEIR folder that have a relevant document. Their split is the name of the qrels file.

    A query without a relevant document is left out, as every relevance metric would be 0 or undefined. Without a split
    the queries are those of `test`, as in published figures.
    """
    lines = [(place, row) for place, row in _json_rows(folder / QUERIES) if isinstance(row, dict)]
    queries = {str(row.get("_id")): (place, row.get("text")) for place, row in lines}
    files = sorted((folder / QRELS).glob("*.tsv"))
    cases: dict[str, dict[str, Any]] = {}
    for file in [file for file in files if file.stem == (split or "test")] or files:
        text = read_text(file, "a file of judgements", MOST_BYTES, DatasetError)
        for number, line in enumerate(text.splitlines(), 1):
            judged = JUDGEMENT.fullmatch(line)
            if judged and judged[1] in queries:
                case = cases.setdefault(judged[1], {"id": judged[1], "split": file.stem, "relevant_ids": {}})
                case["relevant_ids"][judged[2]] = int(judged[3])
            elif line.strip() and (judged or number > 1):
                expected = f"expected id of a query of {QUERIES}, id of a document and grade, with tabs between them"
                yield f"{file}:{number}", ValueError(f"{expected}, got {quoted(line)}")
    for key, case in cases.items():
        if any(grade > 0 for grade in case["relevant_ids"].values()):
            yield queries[key][0], {**case, "query": queries[key][1]}


READERS: Mapping[str, Callable[[Path], Iterator[Row]]] = {
    ".jsonl": _json_rows,
    ".json": _json_rows,
    ".csv": _csv_rows,
    ".tsv": _csv_rows,
    ".parquet": _parquet_rows,
}


# From cells to fields


def _of_table(source: str | Path, rows: Iterable[Row], columns: Mapping[str, str] | None) -> Iterator[Row]:
    """Yield the fields of a case for each row of a table.

    Raises:
        DatasetError: A column is no field. This is checked once, by the first row.
    """
    for number, (place, cells) in enumerate(rows, 1):
        row = _fields(cells, columns)
        if number == 1 and not isinstance(row, Exception):
            _check_columns(source, cells, row, columns or {})
        yield place, row


def _check_columns(source: str | Path, cells: Mapping[str, Any], row: Any, columns: Mapping[str, str]) -> None:
    """Check that every column is a field, and that there is a query.

    Raises:
        DatasetError: A column is unknown or missing.
    """
    wrong = [*({*columns} - {*cells}), *({"query"} - {*cells, *row}), *(row.keys() - {*FIELDS})]
    if not wrong:
        return
    kind, names = ("unknown", FIELDS) if wrong[0] in cells else ("no", cells)
    remedy = "rename it, or leave it out"
    if isinstance(source, Path):
        remedy = f"name them: python -m evals.golden import {source} -o golden.jsonl --column FIELD=COLUMN"
    has = f"{nearest(wrong[0], names)}; it has {', '.join(map(quoted, cells))}"
    raise DatasetError(f"{source}: {kind} column {quoted(wrong[0])}{has}; {remedy}")


def _fields(cells: Any, columns: Mapping[str, str] | None = None) -> Any:
    """Return the fields of a case in a row, or the error that there are none."""
    if not isinstance(cells, Mapping):
        return cells if isinstance(cells, Exception) else ValueError(f"expected a JSON object, got {quoted(cells)}")
    plain = {name: value for name, cell in cells.items() if (value := _plain(cell)) not in (None, "", [])}
    renamed = {**(RAGAS if "user_input" in plain and "query" not in plain else {}), **(columns or {})}
    if renamed or columns is not None:
        fields = {name: value for name, value in plain.items() if name in FIELDS and name not in renamed}
        plain = fields | {field: plain[column] for column, field in renamed.items() if column in plain}
    values = {name: _value(name, cell) for name, cell in plain.items()}
    passage = {name: values.pop(name) for name in OF_EVIDENCE if name in values}
    passages = [passage] if passage.keys() - {"grade"} else []
    # The grade of a row holds for all passages and ids in the row.
    grade = passage.get("grade", 1)
    passages += [{"quote": text, "grade": grade} for text in values.pop("contexts", [])]
    if isinstance(ids := values.get("relevant_ids"), list):
        values["relevant_ids"] = dict.fromkeys(map(str, ids), grade)
    if passages and isinstance(values.get("evidence", []), list):
        values["evidence"] = [*values.get("evidence", []), *passages]
    return values


def _plain(value: Any) -> Any:
    """Return a value in types of JSON; None for NaN, and without the empty fields of a mapping."""
    if isinstance(value, Mapping):
        return {name: inner for name, cell in value.items() if (inner := _plain(cell)) is not None}
    value = value.tolist() if hasattr(value, "tolist") else value  # numpy's arrays and numbers
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and isnan(value) else value


def _value(name: str, cell: Any) -> Any:
    """Return the value of a field in a cell, where a table may hold a list or an object as text."""
    if isinstance(cell, str) and (name in LISTS or name in OBJECTS):
        # An item of text may begin with a brace, but no id does.
        brackets = ("[",) if name in LISTS and name != "relevant_ids" else ("[", "{")
        is_written = cell.lstrip().startswith(brackets)
        for parse in (load_json, ast.literal_eval) if is_written else ():
            with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
                return _value(name, parse(cell.strip()))
        if name in LISTS and not (is_written and name == "relevant_ids"):
            cell = [part for part in re.split(LISTS[name], cell.strip()) if part]
    if name == "id" and isinstance(cell, float) and cell.is_integer():  # a column of pandas with gaps
        return int(cell)
    return cell
