"""Queries by a real model that is far too small for it: the checks drop what is bad, whatever it writes."""

import json
from pathlib import Path

import pytest

from evals.cases.relevance import normalise
from evals.golden.command import main
from retrievers.indexing.pages import read_corpus
from tests.support.command import call
from tests.support.small_model import MODEL, absent, serving

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(absent()), reason=absent())]


def test_nothing_that_it_invents_gets_into_the_file(
    handbook: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "golden.jsonl"
    with serving() as url:
        model = ["--judge.model", f"openai:{MODEL}", "--judge.base-url", url, "--judge.max-output-tokens", "160"]
        limits = ["--judge.max-concurrency", "1", "--judge.timeout-s", "300"]
        where = ["--docs", handbook / "docs", "--out", out, "--judge.cache-path", tmp_path / "verdicts.sqlite"]
        counts = ["--per-type", "factual=2,keyword=1"]
        done = call(main, ["synthesize", *model, *limits, *where, *counts], capsys)
    assert done.code in (0, 2), done.err
    cases = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    assert "kept" in done.out
    pages = {page.source_url: normalise(page.text) for page in read_corpus(handbook / "docs").pages}
    for case in cases:
        assert all(normalise(one["quote"]) in pages[one["source_url"]] for one in case["evidence"])
    if cases:
        assert call(main, ["check", out, "--docs", handbook / "docs"], capsys).code == 0
