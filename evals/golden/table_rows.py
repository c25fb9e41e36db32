"""Rows of a CSV or JSON Lines file, each with its place."""

import csv
import io
from pathlib import Path
from typing import Any

from evals.errors import DatasetError
from evals.golden.loading import MOST_BYTES, refusal
from retrievers.config.guarded_json import load
from retrievers.config.text_files import read_text
from retrievers.text.quoting import quoted

DELIMITERS = ",;\t"
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
            place = f"{file}:{reader.line_num}"
            if "" in row and isinstance(row[""], list):
                faults.append(f"{place}: has {len(row['']):,} more cells than the first line has names")
                continue
            rows.append((place, {name.strip(): value for name, value in row.items() if name and value}))
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
        place = f"{file}:{number}"
        try:
            value = load(line)
        except ValueError as error:
            faults.append(f"{place}: {error}")
            continue
        if isinstance(value, dict):
            rows.append((place, {name: cell for name, cell in value.items() if cell not in (None, "", [])}))
        else:
            faults.append(f"{place}: expected a JSON object, got {quoted(value)}")
    return _checked(file, rows, faults)


def _checked(file: Path, rows: list[Row], faults: list[str]) -> list[Row]:
    if faults:
        raise refusal(faults)
    if not rows:
        raise DatasetError(f"{file}: holds no row")
    return rows
