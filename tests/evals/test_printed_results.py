"""What `print`, and a notebook, show of a result: the head and table that the command shows."""

import re
from html import unescape
from pathlib import Path

import pytest

from evals import Experiment, compare_runs, evaluate, sweep
from evals.compare import main as compare
from evals.run import main
from tests.support.command import call
from tests.support.experiment import make_experiment

MOST = 4_000


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return make_experiment(tmp_path / "made").config


def test_of_a_run(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = evaluate(experiment=Experiment.load(config))
    printed = repr(result)
    assert str(result) == printed
    assert call(main, ["--config", config, "--no-gate"], capsys).out.startswith(f"{printed}\n")
    assert "5 of 6 queries pass" in printed.splitlines()[0] and "ranking/hit_rate_at_3" in printed
    assert len(printed) < MOST
    shown, frame = result._repr_html_().split("<iframe ")
    assert text_of(shown) == printed
    page = unescape(re.search(r'srcdoc="([^"]*)"', frame)[1])  # type: ignore[index]
    assert page == result.save("page.html").read_text(encoding="utf-8")


def test_of_a_grid(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    axes = {"top_k": [1, 3], "threshold": [0.1, 0.3]}
    printed = repr(sweep(Experiment.load(config, {"sweep": axes})))
    flags = ["--sweep.top-k", "1,3", "--sweep.threshold", "0.1,0.3"]
    assert call(main, ["--config", config, "--no-gate", *flags], capsys).out.startswith(f"{printed}\n")
    assert "Which threshold and top_k?" in printed and "Grid of 4 cells" in printed and "queries pass" in printed
    assert len(printed) < MOST


def test_of_a_comparison(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for top_k in ("1", "3"):
        call(main, ["--config", config, "--no-gate", f"--retriever.top-k={top_k}", f"--output={top_k}.json"], capsys)
    [comparison] = compare_runs("1.json", "3.json")
    assert call(compare, ["1.json", "3.json"], capsys).out.startswith(f"{comparison!r}\n")
    assert "ranking/" in str(comparison) and len(repr(comparison)) < MOST
    assert text_of(comparison._repr_html_()) == repr(comparison)


def text_of(html: str) -> str:
    """The text of what a notebook shows."""
    return unescape(re.sub(r"<[^>]+>", "", html)).strip("\n")
