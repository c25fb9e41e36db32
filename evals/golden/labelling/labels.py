"""Labels of people: a line of JSON for each key press, in a file beside the golden data."""

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from threading import Lock

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from evals.errors import DatasetError
from evals.golden.case import Case, Text
from retrievers.config.files import FileLock

MOST_GRADE = 3


class Label(BaseModel):
    """What an annotator says of a chunk for a query; the last line of the three counts.

    Attributes:
        asked: Hash of what the annotator read of the case: query and reference answer.
        annotator: Name.
        grade: 0 not relevant, 1 background, 2 answers in part, 3 answers; None where it was skipped.
        quotes: Passages of the chunk that answer, verbatim.
        note: Remark of the annotator.
        undone: True if this takes back the label before it.
        chunk_text: Text of the chunk, for the evidence that is written from it.
        source_url: Page of the chunk.
        heading: Heading above it.
        at: Time.
        pool: Systems of the pool that it was judged in.
        depth: Depth of that pool.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    case: Text
    asked: str
    chunk: Text
    annotator: Text = Field(max_length=80)
    grade: int | None = Field(None, ge=0, le=MOST_GRADE)
    quotes: tuple[str, ...] = ()
    note: str = ""
    undone: bool = False
    chunk_text: str = ""
    source_url: str | None = None
    heading: str | None = None
    at: AwareDatetime
    pool: tuple[str, ...] = ()
    depth: int = Field(ge=1)


Standing = Mapping[tuple[str, str, str], Label]
"""(annotator, case id, chunk id) to the label that counts, in the order of the last change."""


def asked(case: Case) -> str:
    """Return the hash of what annotators read of a case."""
    return hashlib.sha256(f"{case.query}\0{case.reference_answer or ''}".encode()).hexdigest()[:16]


class LabelFile:
    """A file of labels, which other processes may write to at the same time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = Lock()
        self._labels: list[Label] = []
        self._lines, self._offset = 0, 0

    def append(self, label: Label) -> None:
        """Write a label at the end; it is on the disk when this returns.

        Raises:
            DatasetError: The file cannot be written.
        """
        line = label.model_dump_json(exclude_defaults=True) + "\n"
        try:
            with FileLock(self.path, create=True, wait=True), self.path.open("r+b") as file:
                end = file.seek(0, os.SEEK_END)
                if end:
                    file.seek(-1, os.SEEK_END)
                    # After a line that a crash of the machine cut short.
                    line = line if file.read(1) == b"\n" else f"\n{line}"
                file.write(line.encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise DatasetError(f"{self.path}: the label cannot be written: {error.strerror or error}") from error

    def labels(self) -> list[Label]:
        """Return all labels in their order; none where the file does not exist.

        A line that was cut short was never confirmed to its annotator, and is left out.

        Raises:
            DatasetError: The file cannot be read, or a line is no label.
        """
        with self._lock:
            try:
                with self.path.open("rb") as file:
                    file.seek(self._offset)
                    new = file.read()
            except FileNotFoundError:
                new = b""
            except OSError as error:
                raise DatasetError(f"{self.path}: cannot be read as labels: {error.strerror or error}") from error
            new = new[: new.rfind(b"\n") + 1]
            for line in new.splitlines():
                self._lines += 1
                if line.strip() and not (line.startswith(b"{") and not line.endswith(b"}")):
                    self._labels.append(_parsed(line, f"{self.path}:{self._lines}"))
            self._offset += len(new)
            return list(self._labels)


def standing(labels: Iterable[Label]) -> Standing:
    """Return the labels that count: the last of each annotator, query and chunk, unless it was taken back."""
    result: dict[tuple[str, str, str], Label] = {}
    for label in labels:
        key = (label.annotator, label.case, label.chunk)
        result.pop(key, None)
        if not label.undone:
            result[key] = label
    return result


def _parsed(line: bytes, place: str) -> Label:
    try:
        return Label.model_validate_json(line)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        name = ".".join(map(str, fault["loc"]))
        raise DatasetError(f"{place}: expected a label, got {f'{name}: ' if name else ''}{fault['msg']}") from error
