"""Tables as rows of golden data: read line by line, then columns of any name are mapped to its fields."""

import ast
import csv
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evals.errors import DatasetError
from evals.golden.loading import MOST_BYTES, refusal
from retrievers.config.files import load_json, read_text
from retrievers.config.languages import words
from retrievers.errors import nearest
from retrievers.text.quoting import quoted

# Fields that a column may be named for; `contexts` are texts of passages, which are looked up.
OF_EVIDENCE = ("quote", "source_url", "heading", "grade")
FIELDS = (
    *("id", "query", "reference_answer", "contexts", *OF_EVIDENCE, "relevant_ids", "in_scope", "query_type"),
    *("tags", "split", "expected_topics", "source_url_pattern", "min_results"),
)
# Columns of ragas' testsets and evaluation datasets.
RAGAS = {
    "query": "user_input",
    "reference_answer": "reference",
    "contexts": "reference_contexts",
    "relevant_ids": "reference_context_ids",
    "query_type": "synthesizer_name",
}
LISTS = ("contexts", "tags", "expected_topics")
NUMBERS = ("grade", "min_results")
YES, NO = ("true", "yes", "1"), ("false", "no", "0")
SEPARATORS = re.compile(r"[\s,;]+")
# A list as text of more characters is no list of a table.
LONGEST_LIST = 1_000_000
DELIMITERS = ",;\t"
# Ending of a file to the reader of Hugging Face; any other name of a reader would be that of a dataset on the hub.
KINDS = {".parquet": "parquet", ".jsonl": "json", ".json": "json", ".csv": "csv"}
Place = str
Row = tuple[Place, dict[str, Any]]


def csv_rows(file: Path) -> list[Row]:
    """Return the rows of a CSV file by the names in its first line; the delimiter is a comma, semicolon or tab.

    Raises:
        DatasetError: It cannot be read, has no row, or a row has more cells than the first line.
    """
    text = read_text(file, "a CSV file", MOST_BYTES, DatasetError)
    first = text.partition("\n")[0]
    reader = csv.DictReader(io.StringIO(text), delimiter=max(DELIMITERS, key=first.count), restkey="")
    rows: list[Row] = []
    faults = []
    try:
        for row in reader:
            line = f"{file}:{reader.line_num}"
            if "" in row and isinstance(row[""], list):
                faults.append(f"{line}: has {len(row['']):,} more cells than the first line has names")
                continue
            rows.append((line, {name.strip(): value for name, value in row.items() if name and value}))
    except csv.Error as error:
        faults.append(f"{file}:{reader.line_num}: {error}")
    return _checked(file, rows, faults)


def json_rows(file: Path) -> list[Row]:
    """Return the objects of a JSON Lines file.

    Raises:
        DatasetError: It cannot be read, has no row, or a line is no JSON object.
    """
    rows: list[Row] = []
    faults = []
    for number, line in enumerate(read_text(file, "a JSON Lines file", MOST_BYTES, DatasetError).split("\n"), 1):
        if not line.strip():
            continue
        where = f"{file}:{number}"
        try:
            value = load_json(line)
        except ValueError as error:
            faults.append(f"{where}: {error}")
            continue
        if isinstance(value, dict):
            rows.append((where, {name: cell for name, cell in value.items() if cell not in (None, "", [])}))
        else:
            faults.append(f"{where}: expected a JSON object, got {quoted(value)}")
    return _checked(file, rows, faults)


def hub_rows(name: str, *, revision: str | None, split: str) -> list[Row]:
    """Return the rows of a Hugging Face dataset: a folder or file of its formats, or a hub id with a pinned revision.

    Raises:
        DatasetError: A hub id has no revision, or the dataset cannot be loaded or has no row.
    """
    from datasets import load_dataset

    local = Path(name).exists()
    if not local and revision is None:
        raise DatasetError(
            f"{name!r}: no such file or folder; of a hub id give --revision, a commit hash, or its data may change"
        )
    try:
        data = _local(Path(name), split) if local else load_dataset(name, revision=revision, split=split)
    except Exception as error:  # the library has many; the cause is kept in the message
        reason = next(iter(str(error).splitlines()), "")
        raise DatasetError(f"{name!r} (split {split!r}) cannot be loaded: {type(error).__name__}: {reason}") from error
    rows = [
        (f"{name}:{number}", {key: cell for key, cell in row.items() if cell not in (None, "", [])})
        # As a list, nothing is decoded: a column of images may name addresses.
        for number, row in enumerate(data.to_list(), 1)
    ]
    return _checked(Path(name), rows, [])


def _local(path: Path, split: str) -> Any:
    """Load a folder that `save_to_disk` wrote, or a file or a folder's files of Parquet, JSON Lines or CSV.

    A README in the folder is not read: it may name files at any address.
    """
    from datasets import DatasetDict, load_dataset, load_from_disk

    if path.is_dir() and any((path / name).exists() for name in ("dataset_info.json", "dataset_dict.json")):
        saved = load_from_disk(str(path))
        return saved[split] if isinstance(saved, DatasetDict) else saved
    inside = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    files = [file for file in inside if file.suffix.lower() in KINDS]
    if path.is_dir():
        of_split = [file for file in files if split in re.split(r"\W|_", str(file.relative_to(path)))]
        files = of_split or (files if split == "train" else [])
    if not files:
        raise ValueError(f"no file of {', '.join(KINDS)} for this split")
    kind = KINDS[files[0].suffix.lower()]
    names = [str(file) for file in files if KINDS[file.suffix.lower()] == kind]
    return load_dataset(kind, data_files=names, split="train")


def _checked(file: Path, rows: list[Row], faults: list[str]) -> list[Row]:
    if faults:
        raise refusal(faults)
    if not rows:
        raise DatasetError(f"{file}: holds no row")
    return rows


def parse_columns(given: Sequence[str], defaults: Mapping[str, str]) -> dict[str, str]:
    """Parse `query=question` into field to column; fields that are not given are their own columns, or the defaults'.

    Raises:
        DatasetError: It has another form, or an unknown field.
    """
    columns = {name: name for name in FIELDS} | dict(defaults)
    for text in given:
        name, mark, column = (part.strip() for part in text.partition("="))
        if not (mark and column):
            raise DatasetError(f"--column: expected FIELD=COLUMN, such as query=question, got {text!r}")
        if name not in FIELDS:
            fields = ", ".join(FIELDS)
            raise DatasetError(f"--column: unknown field {name!r}{nearest(name, FIELDS)}; expected one of {fields}")
        columns[name] = column
    return columns


def mapped(rows: Sequence[Row], columns: Mapping[str, str], named: Sequence[str]) -> list[Row]:
    """Return rows of golden data, those of one id joined; `contexts` are left as texts.

    Args:
        rows: Rows of a table.
        columns: Field to the name of its column.
        named: Fields whose columns were named, so that they must exist.

    Raises:
        DatasetError: A named column is missing, a cell is not of its field's kind, or a query is there twice under two
            ids; every fault with its place.
    """
    present = {name for _, row in rows for name in row}
    missing = [columns[name] for name in ("query", *named) if columns[name] not in present]
    if missing:
        raise DatasetError(
            f"no column {missing[0]!r}{nearest(missing[0], present)}; "
            f"it has {', '.join(map(quoted, sorted(present)))}; "
            "name columns with --column FIELD=COLUMN"
        )
    joined: dict[str, Row] = {}
    queries: dict[tuple[str, ...], Row] = {}
    faults: list[str] = []
    for number, (line, row) in enumerate(rows, 1):
        cells = {name: row[column] for name, column in columns.items() if column in row}
        try:
            values = {name: _value(name, cell) for name, cell in cells.items()}
        except ValueError as error:
            faults.append(f"{line}: {error}")
            continue
        case = _case(values, f"q{number:03d}")
        first = queries.setdefault(tuple(words(str(case.get("query", "")))), (line, case))
        if first[1]["id"] != case["id"]:
            faults.append(
                f"{line}: the query is that of {first[0]}; name the column of an id (--column id=…) if both rows are "
                "evidence of one query, or take one of them out"
            )
        elif case["id"] in joined:
            _join(joined[case["id"]][1], case)
        else:
            joined[case["id"]] = (line, case)
    if faults:
        raise refusal(faults)
    return list(joined.values())


def _case(values: dict[str, Any], case_id: str) -> dict[str, Any]:
    evidence = {name: values.pop(name) for name in OF_EVIDENCE if name in values}
    return {"id": case_id, **values} | ({"evidence": [evidence]} if evidence.keys() - {"grade"} else {})


def _join(case: dict[str, Any], other: Mapping[str, Any]) -> None:
    """Add the evidence of another row of the same case to it."""
    for name in ("evidence", "contexts"):
        if name in other:
            case[name] = [*case.get(name, []), *other[name]]
    if "relevant_ids" in other:
        case["relevant_ids"] = {**case.get("relevant_ids", {}), **other["relevant_ids"]}


def _value(name: str, cell: Any) -> Any:
    """Return a cell as its field's kind: tables of text hold numbers and lists as text.

    Raises:
        ValueError: It is not of that kind.
    """
    if name in LISTS:
        return [str(item) for item in _list(cell, split=name != "contexts")]
    if name == "relevant_ids":
        return _ids(cell)
    if name in NUMBERS and isinstance(cell, str):
        if not (cell.strip().isascii() and cell.strip().lstrip("-").isdigit() and len(cell) < 10):
            raise ValueError(f"{name}: expected a whole number, got {quoted(cell)}")
        return int(cell)
    if name == "in_scope" and not isinstance(cell, bool):
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
    if isinstance(cell, dict):
        return cell
    if isinstance(cell, str) and cell.lstrip().startswith("{"):
        value = load_json(cell)
        if isinstance(value, dict):
            return value
    if isinstance(cell, list) or str(cell).lstrip().startswith("["):
        return dict.fromkeys(map(str, _list(cell, split=True)), 1)
    grades: dict[str, int] = {}
    for part in filter(None, SEPARATORS.split(str(cell))):
        name, _, grade = part.rpartition(":")
        graded = bool(name) and grade.lstrip("-").isdigit() and len(grade) < 10
        grades[name if graded else part] = int(grade) if graded else 1
    return grades
