"""Rows of golden data: of files and folders, of the hub and of memory, each with its place, as the fields of a case."""

import ast
import csv
import io
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from math import isnan
from pathlib import Path
from typing import Any, TypeAlias

from evals.cases.case import Case
from evals.config.experiment import DatasetConfig
from evals.errors import DatasetError
from retrievers.config.files import load_json, read_text
from retrievers.config.languages import words
from retrievers.errors import IndexingError, nearest
from retrievers.indexing.rows import rows_of as table_rows
from retrievers.text.quoting import quoted

# Largest file: hundreds of thousands of queries.
MOST_BYTES = 100_000_000
# Columns of a table that hold one piece of evidence; `contexts` are texts of passages.
OF_EVIDENCE = ("quote", "source_url", "heading", "grade")
FIELDS = (*Case.model_fields, *OF_EVIDENCE, "contexts")
# Columns of ragas' testsets and evaluation datasets.
RAGAS = {
    "user_input": "query",
    "reference": "reference_answer",
    "reference_contexts": "contexts",
    "reference_context_ids": "relevant_ids",
    "synthesizer_name": "query_type",
}
SUFFIXES = (".jsonl", ".json", ".csv", ".tsv", ".parquet")
QUERIES, QRELS = "queries.jsonl", "qrels"
YES, NO = ("true", "yes", "1"), ("false", "no", "0")
SEPARATORS = re.compile(r"[\s,;]+")
# A list as text of more characters is no list of a table.
LONGEST_LIST = 1_000_000
# Digits of a grade; int() of a long text takes quadratic time.
LONGEST_GRADE = 10
DELIMITERS = ",;\t"
SPACE = re.compile(r"[\s,]*")
NO_OBJECT = "expected a JSON object, got {}"
Renamed: TypeAlias = Callable[[Mapping[str, Any]], dict[str, Any]]
"""From the cells of a row, by column, to the same by field."""
Row: TypeAlias = tuple[str, Any]
"""Where it stands, as `file:line`, and its value: fields, or the error in their place."""


def rows_of(source: Path, fields: Renamed | None = None) -> Iterator[Row]:
    """Yield the rows of a file or folder, in the order of the files' names.

    JSON Lines, a JSON array, CSV (comma, semicolon or tab), Parquet, a folder that `Dataset.save_to_disk` wrote, or a
    folder of BEIR (`queries.jsonl`, `qrels/test.tsv`). Rows of one id in a CSV file are one case with several pieces of
    evidence. Rows with ragas' columns are known by `user_input`.

    Args:
        source: The file or folder.
        fields: Renames the columns of a row; of a table all must be fields without.

    Raises:
        DatasetError: It cannot be read, or holds no golden data.
    """
    if (source / QUERIES).is_file() and (source / QRELS).is_dir():
        judgements = sorted((source / QRELS).glob("*.tsv"))
        # Published figures are those of `test`.
        yield from beir_rows(source, [file for file in judgements if file.stem == "test"] or judgements)
        return
    if any((source / name).is_file() for name in ("state.json", "dataset_dict.json")):
        yield from _from_table(source, _dataset_rows(str(source)), fields)
        return
    inside = (sorted(source.glob(f"*{suffix}")) for suffix in SUFFIXES)
    files = next(filter(None, inside), []) if source.is_dir() else [source]
    if not files:
        raise DatasetError(f"{source}: holds no {', '.join(SUFFIXES)} file, and is no folder of BEIR or Hugging Face")
    for file in files:
        if file.suffix.lower() in (".csv", ".tsv"):
            yield from _joined(_from_table(file, _csv_rows(file), fields))
        elif file.suffix.lower() == ".parquet":
            yield from _from_table(file, _dataset_rows(str(file)), fields)
        elif fields:
            yield from _joined(_from_table(file, _json_rows(file), fields))
        else:
            for place, row in _json_rows(file):
                is_ragas = isinstance(row, dict) and "user_input" in row and "query" not in row
                yield place, _tried(row, None) if is_ragas else row


def hub_rows(config: DatasetConfig, fields: Renamed | None = None) -> Iterator[Row]:
    """Yield the rows of a dataset of the hub: of its split `dataset.split`, or where it has none, of `train`.

    Args:
        config: Hub id, revision and split.
        fields: Renames the columns of a row; all must be fields without.

    Raises:
        DatasetError: It cannot be loaded.
    """
    for split in dict.fromkeys((config.split or "train", "train")):
        try:
            rows = list(_dataset_rows(f"hub:{config.hub}", config.revision, split))
        except DatasetError as error:
            fault = error
            continue
        named = [
            (f"{config.hub}:{number}", row if config.split != split else {"split": split, **row})
            for number, (_, row) in enumerate(rows, 1)
        ]
        yield from _from_table(Path(str(config.hub)), named, fields)
        return
    reason = str(fault).partition("cannot be read: ")[2] or str(fault)
    raise DatasetError(
        f"dataset.hub {config.hub!r} at revision {config.revision!r} cannot be loaded: {reason.splitlines()[0]}"
    ) from fault


def beir_rows(folder: Path, qrels: Sequence[Path]) -> Iterator[Row]:
    """Yield the queries of a BEIR folder that have a relevant document; their split is the name of the qrels file.

    Without a relevant document every relevance metric is 0 or undefined.
    """
    queries: dict[str, Row] = {}
    for place, row in _json_rows(folder / QUERIES):
        if isinstance(row, Exception):
            yield place, row
        elif not isinstance(row.get("text"), str) or not str(row.get("_id", "")).strip():
            yield place, ValueError(f'expected an object with "_id" and "text", got {quoted(row)}')
        elif (first := queries.setdefault(str(row["_id"]), (place, row)))[0] != place:
            yield place, ValueError(f"query id {quoted(str(row['_id']))} is used already at {first[0]}")
    judged: dict[str, dict[str, Any]] = {}
    for place, row in (row for file in qrels for row in _judgements(file)):
        if isinstance(row, Exception) or row[0] not in queries:
            yield place, row if isinstance(row, Exception) else ValueError(f"no query {quoted(row[0])}")
            continue
        case = judged.setdefault(row[0], {"relevant_ids": {}, "split": Path(place.rpartition(":")[0]).stem})
        case["relevant_ids"][row[1]] = row[2]
    for key, case in judged.items():
        if any(grade > 0 for grade in case["relevant_ids"].values()):
            yield queries[key][0], {"id": key, "query": queries[key][1]["text"], **case}


def _judgements(file: Path) -> Iterator[Row]:
    """Yield query id, document id and grade of each line of a qrels file: tab-separated, with or without a header."""
    first: dict[tuple[str, str], str] = {}
    for number, line in enumerate(read_text(file, "a file of judgements", MOST_BYTES, DatasetError).split("\n"), 1):
        parts = line.split("\t")
        if not line.strip() or (number == 1 and not parts[-1].strip().lstrip("-").isdigit()):
            continue
        place = f"{file}:{number}"
        try:
            query_id, document_id, written = parts
            grade = int(written if len(written) <= LONGEST_GRADE else "")
        except ValueError:
            fault = f"expected query id, document id and a whole-number grade, got {quoted(line.strip())}"
            yield place, ValueError(fault)
            continue
        if (before := first.setdefault((query_id, document_id), place)) != place:
            named = f"document {quoted(document_id)} of query {quoted(query_id)}"
            yield place, ValueError(f"{named} is judged already at {before}")
            continue
        yield place, (query_id, document_id, grade)


def _json_rows(file: Path) -> Iterator[Row]:
    """Yield the objects of a file of JSON Lines, or of one array of them."""
    text = read_text(file, "a JSON Lines file", MOST_BYTES, DatasetError)
    first = text.lstrip().partition("\n")[0].strip()
    if first[:1] == "[" or first == "{":
        try:
            whole = load_json(text)
        except ValueError as error:
            # A line that is a value by itself is a wrong line of JSON Lines.
            if isinstance(_parsed(first, any_value=True), ValueError) and len(first) < len(text.strip()):
                raise DatasetError(f"{file}: {error}; expected one JSON object a line, or one array of them") from None
        else:
            if not isinstance(whole, list):
                raise DatasetError(f"{file}: an object over several lines; expected one object a line, or an array")
            yield from _array_rows(file, text, whole)
            return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield f"{file}:{number}", _parsed(line)


def _array_rows(file: Path, text: str, values: Sequence[Any]) -> Iterator[Row]:
    """Yield the elements of an array, each with the line on which it begins."""
    at, line = text.index("[") + 1, 1
    counted = 0
    for value in values:
        match = SPACE.match(text, at)
        at = match.end() if match else at
        line, counted = line + text.count("\n", counted, at), at
        yield f"{file}:{line}", value if isinstance(value, dict) else ValueError(NO_OBJECT.format(quoted(value)))
        at = json.JSONDecoder().raw_decode(text, at)[1]


def _parsed(line: str, *, any_value: bool = False) -> Any:
    try:
        value = load_json(line)
    except ValueError as error:
        return error
    return value if any_value or isinstance(value, dict) else ValueError(NO_OBJECT.format(quoted(value)))


def _csv_rows(file: Path) -> Iterator[Row]:
    text = read_text(file, "a CSV file", MOST_BYTES, DatasetError)
    first = text.partition("\n")[0]
    reader = csv.DictReader(io.StringIO(text), delimiter=max(DELIMITERS, key=first.count), restkey="")
    try:
        for row in reader:
            more = row.pop("", None)
            many = f"has {len(more or ''):,} more cells than the first line has names"
            line = f"{file}:{reader.line_num}"
            yield line, ValueError(many) if isinstance(more, list) else {name.strip(): row[name] for name in row}
    except csv.Error as error:
        yield f"{file}:{reader.line_num}", ValueError(str(error))


def _dataset_rows(source: str, revision: str | None = None, split: str | None = None) -> Iterator[Row]:
    try:
        for row in table_rows(Path(source), {"revision": revision, "subset": None, "split": split}):
            yield row.place, row.values
    except IndexingError as error:
        raise DatasetError(str(error)) from error


def rows_in_memory(data: Any) -> Iterator[Row]:
    """Yield the rows of a list of dictionaries or cases, a DataFrame or a Hugging Face dataset.

    Raises:
        DatasetError: It is none of these.
    """
    rows = data.to_dict("records") if hasattr(data, "iterrows") else data
    if isinstance(rows, Mapping) or not isinstance(rows, Iterable):
        raise DatasetError(
            f"expected golden queries as a path, a list of dictionaries, a DataFrame or a dataset, got "
            f"{type(data).__name__}"
        )
    for number, row in enumerate(rows):
        if isinstance(row, Mapping):
            yield f"row {number}", _tried(row, None)
        elif isinstance(row, Case):
            yield f"row {number}", row
        else:
            yield f"row {number}", ValueError(f"expected a dictionary, got {type(row).__name__}")


def _from_table(source: Path, rows: Iterable[Row], fields: Renamed | None) -> Iterator[Row]:
    """Yield the rows of a table as cases, once its columns are found to be fields.

    Raises:
        DatasetError: It has no row, no query, or a column that is no field.
    """
    is_empty = True
    for place, row in rows:
        if is_empty and fields is None and not isinstance(row, Exception):
            _check_columns(source, row.keys())
        is_empty = False
        yield place, row if isinstance(row, Exception) else _tried(row, fields)
    if is_empty:
        raise DatasetError(f"{source}: holds no row")


def _check_columns(source: Path, names: Collection[str]) -> None:
    if "user_input" in names and "query" not in names:
        return
    unknown = [name for name in names if name and name not in FIELDS]
    if "query" in names and not unknown:
        return
    name = "query" if "query" not in names else unknown[0]
    fault = f"no column 'query'{nearest('query', names)}" if name == "query" else f"unknown column {quoted(name)}"
    raise DatasetError(
        f"{source}: {fault}{nearest(name, FIELDS) if name != 'query' else ''}; it has "
        f"{', '.join(map(quoted, sorted(names)))}; give them the names of fields, or: python -m evals.golden import "
        f"{source} -o golden.jsonl --column FIELD=COLUMN"
    )


def _joined(rows: Iterable[Row]) -> Iterator[Row]:
    """Join the rows of a table that have one id: each holds a piece of evidence of one case."""
    cases: dict[str, Row] = {}
    queries: dict[tuple[str, ...], Row] = {}
    for number, (place, row) in enumerate(rows, 1):
        if isinstance(row, Exception):
            yield place, row
            continue
        case = {"id": f"q{number:03d}", **row}
        first = queries.setdefault(tuple(words(str(case.get("query", "")))), (place, case))
        if first[1]["id"] != case["id"]:
            same = f"the query is that of {first[0]}; give both rows one id if they are evidence of one query"
            yield place, ValueError(f"{same}, or take one of them out")
            continue
        before = cases.setdefault(case["id"], (place, case))[1]
        if before is not case:
            before["evidence"] = [*before.get("evidence", []), *case.get("evidence", [])]
            before["relevant_ids"] = {**before.get("relevant_ids", {}), **case.get("relevant_ids", {})}
    yield from cases.values()


def _tried(row: Mapping[str, Any], fields: Renamed | None) -> Any:
    """Return the fields of a case that a row of a table holds, or the error of a cell that is of another kind."""
    cells = {name: plain for name, cell in row.items() if (plain := _plain(cell)) not in (None, "", [])}
    if fields:
        cells = fields(cells)
    elif "user_input" in cells and "query" not in cells:
        cells = {field: cells[column] for column, field in RAGAS.items() if column in cells}
    try:
        values = {name: _value(name, cell) for name, cell in cells.items()}
    except ValueError as error:
        return error
    one = {name: values.pop(name) for name in OF_EVIDENCE if name in values}
    evidence = [
        *values.pop("evidence", []),
        *([one] if one.keys() - {"grade"} else []),
        *({"quote": text} for text in values.pop("contexts", [])),
    ]
    return values | ({"evidence": evidence} if evidence else {})


def _plain(value: Any) -> Any:
    """Return the value in the types of JSON, without the empty fields that a table adds."""
    if isinstance(value, Mapping):
        return {key: inner for key, cell in value.items() if (inner := _plain(cell)) is not None}
    if hasattr(value, "tolist"):  # numpy's arrays and numbers
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and isnan(value) else value


def _value(name: str, cell: Any) -> Any:
    """Return a cell as its field's kind: tables of text hold numbers and lists as text.

    Raises:
        ValueError: It is not of that kind.
    """
    match name:
        case "contexts" | "tags" | "expected_topics":
            return [str(item) for item in _list(cell, split=name != "contexts")]
        case "relevant_ids":
            return _ids(cell)
        case "evidence" | "human_verdicts" | "labelling":
            return load_json(cell) if isinstance(cell, str) else cell
        case "grade" | "min_results" if isinstance(cell, str):
            if not (cell.strip().isascii() and cell.strip().lstrip("-").isdigit() and len(cell) < LONGEST_GRADE):
                raise ValueError(f"{name}: expected a whole number, got {quoted(cell)}")
            return int(cell)
        case "in_scope" if not isinstance(cell, bool):
            text = str(cell).strip().lower()
            if text not in (*YES, *NO):
                raise ValueError(f"in_scope: expected true or false, got {quoted(cell)}")
            return text in YES
    return str(cell) if name == "id" else cell


def _list(cell: Any, *, split: bool) -> list[Any]:
    """Return a list; of text, one in JSON's or Python's notation, as ragas and pandas write it."""
    if isinstance(cell, list):
        return cell
    text = str(cell).strip()
    if text.startswith("[") and len(text) <= LONGEST_LIST:
        for read in (load_json, ast.literal_eval):
            try:
                value = read(text)
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                continue
            if isinstance(value, list):
                return value
    return [part for part in re.split(r"[,;]\s*", text) if part] if split else [text]


def _ids(cell: Any) -> dict[str, int]:
    """Return chunk ids with grades: of an object, a list, or a text such as `a b` or `a:2, b:0`."""
    if isinstance(cell, str) and cell.lstrip().startswith("{"):
        cell = load_json(cell)
    if isinstance(cell, dict):
        return cell
    if isinstance(cell, list) or str(cell).lstrip().startswith("["):
        return dict.fromkeys(map(str, _list(cell, split=True)), 1)
    grades: dict[str, int] = {}
    for part in filter(None, SEPARATORS.split(str(cell))):
        name, _, grade = part.rpartition(":")
        graded = bool(name) and grade.lstrip("-").isdigit() and len(grade) < LONGEST_GRADE
        grades[name if graded else part] = int(grade) if graded else 1
    return grades
