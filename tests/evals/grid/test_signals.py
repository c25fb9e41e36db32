"""A threshold that reads another score than the cosine: in the grid, in a run, in the exported retriever."""

from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from typing import Any

import pytest
from pydantic import ValidationError

from evals.config.experiment import ExperimentConfig
from evals.report.grid_sections import decision_section
from evals.report.html import render_page
from evals.stats.abstention import FINAL as FINAL_SCORE
from evals.stats.abstention import Signal
from retrievers import RetrieverConfig
from retrievers.embedding.bm25 import Bm25Encoder
from retrievers.records import RetrievedChunk
from tests.support.experiment import Experiment, settings
from tests.support.grid_world import METRICS, Bench, swept_of
from tests.support.stored_reports import stored

THRESHOLDS = {"bm25": [0, 0.2, 0.5, 1, 2], "known_words": [0, 0.4, 0.5, 0.75, 1], "rerank": [0, 0.2, 0.4, 0.6, 0.9]}
SCORER = {"model": "python:tests.support.rerankers:Scorer"}
RERANKED = {"rerank": "cross-encoder", "cross_encoder": SCORER}


def experiment(world: Experiment, signal: str, on: str = "each", **changes: Any) -> ExperimentConfig:
    read = {"threshold_signal": signal, "threshold_on": on, "mode": "hybrid", "candidates": 20, "threshold": 0}
    retriever = read | (RERANKED if signal == "rerank" else {})
    return settings(world, **{"metrics": METRICS, **{f"retriever__{k}": v for k, v in retriever.items()}, **changes})


def scores(signal: str, query: str, hits: tuple[RetrievedChunk, ...], corpus: set[int]) -> Iterator[float]:
    """Yield what the threshold reads of each candidate, by the words of query and corpus."""
    words = Bm25Encoder().query(query)
    for hit in hits:
        if signal == "rerank":
            yield hit.scores["rerank"]
        elif signal == "bm25":
            yield hit.scores.get("keyword", 0.0) / (sum(words.values) or 1)
        else:
            yield len({*words.indices} & corpus) / max(1, len(words.indices))


@pytest.mark.parametrize(("signal", "on"), [(signal, on) for signal in THRESHOLDS for on in ("each", "best")])
def test_a_cell_keeps_what_reaches_its_threshold(world: Experiment, bench: Bench, signal: str, on: str) -> None:
    made = bench.grid(experiment(world, signal, on, sweep={"top_k": [2, 20], "threshold": THRESHOLDS[signal]}))
    grid, sizes = swept_of(made).grid, set[int]()
    with bench.opened([grid.variants[0].settings]) as ([retriever], _):
        corpus = {term for chunk in retriever.chunks() for term in Bm25Encoder().document(chunk.text).indices}
        found = [tuple(retriever.candidates([case.query])[0]) for case in bench.golden.cases]
    for cell in map(grid.cell, range(len(grid))):
        for observed, hits in zip(grid.results(cell.index).observations(), found, strict=True):
            read = list(scores(signal, observed.case.query, hits, corpus))
            read = [max(read, default=0.0)] * len(read) if on == "best" else read
            kept = [hit.chunk.chunk_id for hit, score in zip(hits, read, strict=True) if score >= (cell.threshold or 0)]
            assert list(observed.selection.chunk_ids) == kept[: cell.top_k]
            sizes.add(len(kept))
    assert len(sizes) > 1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"threshold_signal": "bm25"}, "use mode: hybrid"),
        ({"threshold_signal": "rerank"}, "use rerank: cross-encoder"),
        ({"threshold_signal": "rerank", "rerank": "cross-encoder", "threshold_on": "final"}, "leave out one of them"),
        ({"threshold_signal": "known_words", "mode": "hybrid", "threshold": 1.5}, "expected a number from 0 to 1"),
        ({"threshold_signal": "known_words", "mode": "keyword", "keyword": {"encoder": "python:m:f"}}, "needs words"),
    ],
)
def test_a_signal_that_the_search_does_not_hold_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        RetrieverConfig.model_validate(changes)
    assert RetrieverConfig(mode="hybrid", threshold_signal="bm25", threshold=3.5).threshold_scale == "bm25"


@pytest.mark.parametrize("signal", ["cosine", "bm25", "rerank"])
def test_every_score_that_the_search_holds_says_how_far_it_separates(
    world: Experiment, bench: Bench, signal: str
) -> None:
    reranked: dict[str, Any] = {f"retriever__{name}": value for name, value in RERANKED.items()}
    made = bench.grid(experiment(world, signal, sweep={"top_k": [2], "threshold": [0, 0.5]}, **reranked))
    own, *others = swept_of(made).signals
    assert own.name == signal and {each.name for each in (own, *others)} == {"cosine", "bm25", "rerank"}
    assert [other.auroc for other in others] == sorted((other.auroc for other in others), reverse=True)
    best: dict[bool, list[float]] = {True: [], False: []}
    for observed in swept_of(made).grid.results(0).observations():
        read = scores(signal, observed.case.query, tuple(observed.candidates), set())
        top = observed.top_score or 0.0 if signal == "cosine" else max(read, default=0.0)
        best[observed.case.in_scope].append(top)
    pairs = [(inside > outside) + (inside == outside) / 2 for inside in best[True] for outside in best[False]]
    assert own.auroc == pytest.approx(sum(pairs) / len(pairs))


FAR, NEAR = Signal(name="bm25", auroc=0.8, low=0.7, high=0.9), Signal(name="bm25", auroc=0.6, low=0.45, high=0.7)
COSINE, FINAL = replace(NEAR, name="cosine"), replace(NEAR, name=FINAL_SCORE)
FAR_IS = " bm25 is: AUROC 0.800, 95% 0.700 to 0.900; set --retriever."


@pytest.mark.parametrize(
    ("own", "other", "said"),
    [
        (replace(FAR, name="cosine"), FAR, ""),
        (COSINE, FAR, f"{FAR_IS}threshold-signal bm25"),
        (COSINE, NEAR, " Nor is bm25: AUROC 0.600, 95% 0.450 to 0.700."),
        (FINAL, FAR, f"{FAR_IS}threshold-on best --retriever.threshold-signal bm25"),
        (FINAL, replace(FAR, name="cosine"), "; set --retriever.threshold-on best --retriever.threshold-signal cosine"),
    ],
)  # fmt: skip
def test_the_first_line_says_that_the_score_does_not_separate(own: Signal, other: Signal, said: str) -> None:
    report = stored("grid")
    assert report.grid and report.grid.decision and report.grid.choice
    grid = report.grid.model_copy(update={"signals": (own, other)})
    first = decision_section(report, grid, report.grid.decision, report.grid.choice).lines[0].parts[0].text
    page = render_page(report.model_copy(update={"grid": grid}))
    assert not said or first in unescape(page)
    beginning = f"The score that the threshold reads ({own.name})" if said else "Which threshold and top_k?"
    assert first.endswith(said) and first.startswith(beginning)
