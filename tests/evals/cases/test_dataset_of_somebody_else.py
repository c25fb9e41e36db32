"""Files of a dataset that somebody else made: no address in them is asked, and no module is looked up."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from datasets import Dataset, Features, Image, Value

from evals.cases.rows import rows_of
from evals.errors import DatasetError
from retrievers.indexing.rows import rows_of as table_rows
from tests.support.mlflow_server import MlflowServer, mlflow_server


@pytest.fixture
def server() -> Iterator[MlflowServer]:
    with mlflow_server() as running:
        yield running
        assert running.requests == []


def test_the_readme_of_a_folder_names_no_files(tmp_path: Path, server: MlflowServer) -> None:
    configs = f"configs: [{{config_name: default, data_files: '{server.url}/rows.jsonl'}}]"
    (tmp_path / "README.md").write_text(f"---\n{configs}\n---\n")
    with pytest.raises(DatasetError, match=r"holds no \.jsonl"):
        list(rows_of(tmp_path))
    (tmp_path / "train-0.jsonl").write_text(json.dumps({"query": "x"}) + "\n")
    assert [row for _, row in rows_of(tmp_path)] == [{"query": "x"}]


def test_a_column_of_images_is_not_opened(tmp_path: Path, server: MlflowServer) -> None:
    features = Features({"query": Value("string"), "picture": Image()})
    picture = {"path": f"{server.url}/picture.png", "bytes": None}
    Dataset.from_dict({"query": ["x"], "picture": [picture]}, features=features).save_to_disk(str(tmp_path / "saved"))
    server.requests.clear()  # of who made it
    [(_, row)] = rows_of(tmp_path / "saved", lambda cells: {"query": cells["query"]})
    assert row["query"] == "x"
    [indexed] = table_rows(tmp_path / "saved", {"revision": None, "subset": None, "split": None})
    assert indexed.values["query"] == "x"
