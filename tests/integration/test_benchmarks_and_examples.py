"""Every benchmark starts and measures something small; the examples run."""

import json
import random
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from evals.run import main
from tests.support.command import ROOT, call, python

pytestmark = pytest.mark.integration
BENCHMARKS = ROOT / "benchmarks"
EXAMPLES = ROOT / "examples"
DATA = "DATA"
"""Stands for the folder of a small test collection."""
SMALL: Mapping[str, Sequence[str]] = {
    "default_run": ("--rounds", "1", "--flags", "--limit 5"),
    "embedding_models": ("--data", DATA, "--limit", "20"),
    "grid": ("--data", DATA, "--rounds", "1", "--cells", "1"),
    "handbook": ("--limit", "3"),
    "judge": ("--data", DATA, "--only", "in-process,cached,row"),
    "paired_intervals": ("--samples", "10"),
    "proxies": ("--draws", "5"),
    "rounds": ("--draws", "1"),
    "scale": ("--queries", "100", "--chunks", "200"),
}
TOPICS = ("wing", "boundary layer", "heat", "shock wave", "panel flutter", "jet")


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection in the form of Cranfield's: 48 documents and six queries on six topics."""
    folder = tmp_path_factory.mktemp("collection")
    draw, words = random.Random(0), "flow speed pressure theory of a body in the supersonic stream at high mach".split()
    documents = [
        f"<doc><docno>{n}</docno><title>{TOPICS[n % 6]}</title>"
        f"<text>on the {TOPICS[n % 6]} : {' '.join(draw.choices(words, k=40))} .</text></doc>"
        for n in range(1, 49)
    ]
    queries = [f"<top><num> {n}</num><title>what of the {topic}</title></top>" for n, topic in enumerate(TOPICS, 1)]
    judged = [f"{n % 6 or 6} 0 {n} 1" for n in range(1, 49) if draw.random() < 0.6]
    (folder / "cran.all.1400.xml").write_text("\n".join(documents), encoding="utf-8")
    (folder / "cran.qry.xml").write_text(f"<xml>{''.join(queries)}</xml>", encoding="utf-8")
    (folder / "cranqrel.trec.txt").write_text("\n".join(judged) + "\n", encoding="utf-8")
    return folder


def test_every_benchmark_is_started() -> None:
    assert {*SMALL} == {file.stem for file in BENCHMARKS.glob("*.py")} - {"cranfield"}


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_a_benchmark_measures_something_small(name: str, collection: Path, tmp_path: Path) -> None:
    flags = [str(collection) if part == DATA else part for part in SMALL[name]]
    done = python([str(BENCHMARKS / f"{name}.py"), *flags], tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"\d", done.stdout)


def test_the_experiment_on_ones_own_qdrant_is_understood(capsys: Any) -> None:
    done = call(main, ["--config", EXAMPLES / "own_qdrant.yaml", "--print-config"], capsys)
    assert (done.code, done.err) == (0, "")
    assert "embed-english-v3.0" in done.out and "out_of_scope: 0.2" in done.out


def test_the_notebook_runs(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for cell in json.loads((EXAMPLES / "notebook.ipynb").read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)  # what a reader of the notebook runs
    assert names["result"].metrics["ranking/hit_rate_at_3"].value == 1.0
    swept = names["sweep"](names["find"], names["golden"], top_k=[1, 2, 3], threshold=[0.0, 0.1, 0.2, 0.3])
    assert "Which threshold and top_k?" in str(swept)
