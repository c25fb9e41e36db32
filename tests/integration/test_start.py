"""What the command imports before it has anything to do."""

from pathlib import Path

import pytest

from tests.support.child import python

pytestmark = pytest.mark.integration
HEAVY = {"ragas", "mlflow", "qdrant_client", "langchain", "langchain_core", "datasets", "scipy", "matplotlib", "numpy"}


@pytest.mark.parametrize(
    ("command", "argument"), [("evals.run", "--help"), ("evals.run", "--print-config"), ("evals.compare", "--help")]
)
def test_nothing_heavy_is_imported_to_answer(tmp_path: Path, command: str, argument: str) -> None:
    done = python(["-X", "importtime", "-m", command, argument], tmp_path)
    assert done.returncode == 0
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "argparse" in imported
    assert not HEAVY & imported
    assert list(tmp_path.iterdir()) == []
