"""The rows of a large report: all of them in a Parquet file beside it, the worst in the report itself."""

import shutil
import weakref
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from evals.config.files import replacing
from evals.errors import ReportError
from evals.report.model.queries import QueryRow

MOST_IN_REPORT = 2_000
"""Queries whose rows a report holds itself."""
WORST_IN_REPORT = 200
"""The worst of more queries, which the report still holds."""
ROWS_SUFFIX = ".queries.parquet"
BLOCK = 2_000
"""Rows that are written, and read, at once."""
PLAIN = ("id", "query", "in_scope", "query_type", "outcome", "top_score", "content_relevance", "time_ms")
"""Fields of a row that are columns of the file, for readers with pandas."""


class RowsFile:
    """Rows of a report in a Parquet file: plain columns, a column a metric, and `row`, the whole row as JSON."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        weakref.finalize(self, file.close)

    @classmethod
    def open(cls, path: Path) -> "RowsFile":
        """Open the file of a report.

        Raises:
            ReportError: It cannot be read, or is no such file.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            rows = cls(path.open("rb"))
            names = pq.ParquetFile(rows._file).schema_arrow.names
        except (OSError, pa.ArrowInvalid) as error:
            raise ReportError(f"{path}: the rows of the report cannot be read: {error}") from error
        if "row" not in names:
            raise ReportError(f"{path}: expected the rows of a report, a Parquet file with a column 'row'")
        return rows

    def __iter__(self) -> Iterator[QueryRow]:
        """Yield every row, in the order of the golden data."""
        import pyarrow.parquet as pq

        for block in pq.ParquetFile(self._file).iter_batches(BLOCK, columns=["row"]):
            for text in block.column("row").to_pylist():
                yield QueryRow.model_validate_json(text)

    def save(self, path: Path) -> None:
        """Write the file, whole or not at all.

        Raises:
            ConfigError: It cannot be written.
        """
        self._file.seek(0)
        with replacing(path) as part, part.open("wb") as target:
            shutil.copyfileobj(self._file, target)


def written(rows: Iterable[QueryRow], metrics: Sequence[str], into: list[RowsFile]) -> Iterator[QueryRow]:
    """Yield rows as they come, and write them to a temporary file; when all have come, the file is put into `into`.

    Args:
        rows: The rows of a report.
        metrics: The metrics that they have scores of.
        into: List that takes the file.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = _schema(metrics)
    file = TemporaryFile()
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        block: list[dict[str, Any]] = []
        for row in rows:
            block.append(_columns(row, metrics))
            if len(block) == BLOCK:
                writer.write_table(pa.Table.from_pylist(block, schema))
                block = []
            yield row
        writer.write_table(pa.Table.from_pylist(block, schema))
    into.append(RowsFile(file))


def _schema(metrics: Sequence[str]) -> Any:
    import pyarrow as pa

    kinds = {"in_scope": pa.bool_(), **dict.fromkeys(("top_score", "content_relevance", "time_ms"), pa.float64())}
    plain = [(name, kinds.get(name, pa.string())) for name in PLAIN]
    lists = [("reasons", pa.list_(pa.string())), ("retrieved", pa.list_(pa.string()))]
    return pa.schema([*plain, *lists, *((name, pa.float64()) for name in metrics), ("row", pa.string())])


def _columns(row: QueryRow, metrics: Sequence[str]) -> dict[str, Any]:
    scores = {name: score for name in metrics if isinstance(score := row.scores.get(name), int | float)}
    return {
        **{name: getattr(row, name) for name in PLAIN},
        "reasons": row.reasons,
        "retrieved": [hit.chunk_id for hit in row.retrieved],
        **scores,
        "row": row.model_dump_json(exclude_unset=True),
    }
