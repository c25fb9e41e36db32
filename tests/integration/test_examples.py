"""The examples: the experiment file is one, and the notebook runs from top to bottom."""

import json
from pathlib import Path
from typing import Any

from evals.run import main
from tests.support.command import call

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_experiment_on_ones_own_qdrant_is_understood(capsys: Any) -> None:
    done = call(main, ["--config", EXAMPLES / "own_qdrant.yaml", "--print-config"], capsys)
    assert (done.code, done.err) == (0, "")
    assert "embed-english-v3.0" in done.out
    assert "out_of_scope: 0.2" in done.out


def test_the_notebook_runs(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for cell in json.loads((EXAMPLES / "notebook.ipynb").read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)  # what a reader of the notebook runs
    assert names["result"].metrics["ranking/hit_rate_at_3"].value == 1.0
    swept = names["sweep"](names["find"], names["golden"], top_k=[1, 2, 3], threshold=[0.0, 0.1, 0.2, 0.3])
    assert "Which threshold and top_k?" in str(swept)
