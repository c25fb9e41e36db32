"""Every benchmark starts and measures something small."""

import random
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
DATA = "DATA"
"""Stands for the folder of a small test collection."""
SMALL: Mapping[str, Sequence[str]] = {
    "default_run": ("--rounds", "1", "--flags", "--limit 5"),
    "embedding_models": ("--data", DATA, "--limit", "20"),
    "grid": ("--data", DATA, "--rounds", "1", "--cells", "1"),
    "handbook": ("--limit", "3"),
    "judge": ("--data", DATA, "--only", "in-process,cached,row"),
    "scale": ("--queries", "100", "--chunks", "200"),
}
SIMULATIONS: Mapping[str, Sequence[str]] = {
    "paired_intervals": ("--samples", "10"),
    "proxies": ("--draws", "5"),
    "rounds": ("--draws", "1"),
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


def test_every_benchmark_is_started_and_runs_from_a_checkout_that_is_not_installed() -> None:
    assert {*SMALL} == {file.stem for file in BENCHMARKS.glob("*.py")} - {"cranfield"}
    for name in SMALL:
        text = (BENCHMARKS / f"{name}.py").read_text(encoding="utf-8")
        first = re.search(r"^(?:from|import) (?:evals|retrievers|tests)\b", text, re.MULTILINE)
        assert first is None or 0 < text.find("sys.path.insert(0, ") < first.start(), name


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_a_benchmark_measures_something_small(name: str, collection: Path, tmp_path: Path) -> None:
    flags = [str(collection) if flag == DATA else flag for flag in SMALL[name]]
    assert measured(str(BENCHMARKS / f"{name}.py"), *flags, folder=tmp_path)


@pytest.mark.parametrize("name", SIMULATIONS)
def test_a_simulation_draws_a_little(name: str) -> None:
    assert measured("-m", f"tests.numbers.{name}", *SIMULATIONS[name], folder=BENCHMARKS.parent)


def measured(*command: str, folder: Path) -> bool:
    """Run it in a process of its own; whether it printed a figure."""
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    return any(character.isdigit() for character in done.stdout)
