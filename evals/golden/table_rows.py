"""Rows of a CSV or JSON Lines file, each with its place."""

import csv
import io
import re
from pathlib import Path
from typing import Any

from evals.errors import DatasetError
from evals.golden.loading import MOST_BYTES, refusal
from retrievers.config.guarded_json import load
from retrievers.config.text_files import read_text
from retrievers.text.quoting import quoted

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
            value = load(line)
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
