"""The table of metrics: what each row says of itself, how rows are chosen, scored all at once and averaged."""

import random
from collections.abc import Iterator, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.cases.case import Case
from evals.cases.pages import SourcePages
from evals.cases.relevance import Relevance
from evals.collect.observations import Failure, Score, Unscored
from evals.collect.pool import Pool
from evals.errors import ExperimentError
from evals.judge.tasks import JUDGED, PRECISION
from evals.judge.verdicts import ChunkVerdict, Judging
from evals.metrics import METRICS, NEED_A_JUDGE, QueryMetric, choose, declared, listing, markdown
from evals.metrics.declaration import Context, Kind, metric, own_metric, summarise
from evals.metrics.proxies import RELEVANCE_PROXY
from evals.metrics.results import Results
from retrievers.config import RetrieverConfig
from retrievers.records import Chunk, RetrievedChunk
from retrievers.search.candidates import ChunkList, joined
from tests.support.candidates import found_candidates
from tests.support.observed import make_case, make_chunk
from tests.support.pages import read_pages, true_chunks

OWN = own_metric(metric("team/long")(lambda case, chunks: [len(chunk.text) > 20 for chunk in chunks].count(True) > 1))
OVER_QUERIES = [row for row in (*METRICS.values(), OWN) if isinstance(row, QueryMetric)]
PROXIES = {row.proxy.name: row.proxy for row in OVER_QUERIES if row.proxy}
UNSCORED, FAILED = Unscored(reason="no reference"), Failure(type="TimeoutError", message="no answer in 30 s")
WORDS = "topic service action publisher sends queue robot joint frame".split()


class World:
    """Random candidates of golden queries under two variants, and rows that keep any part of them.

    Chunks share ids, texts, pages and numbers, scores tie, lists are empty, cases are out of scope or without labels.
    In a `listed` world relevance is that of the collection, else of what each variant found.
    """

    def __init__(self, folder: Path, *, listed: bool) -> None:
        self._rng = random.Random(7)
        pages = read_pages(folder)
        self.sources = SourcePages(list(pages.pages), {"broken.md": "not UTF-8"})
        true = true_chunks(pages, "module-1/topics.md")
        self._made = [*true, *(self._chunk(f"c{number % 25}") for number in range(40))]
        cases = tuple(self._case(number) for number in range(16))
        shared = [self._relevance(case) for case in cases]
        chunks = ChunkList()
        self.pool = Pool(
            cases=cases,
            tables=tuple(joined([self._found(chunks, reranked=bool(variant)) for _ in cases]) for variant in range(2)),
            relevance=tuple(tuple(shared if listed else map(self._relevance, cases)) for _ in range(2)),
        )
        lists = self.pool.lists([0, 1])
        list_of = np.asarray([number for number in range(len(lists)) for _ in range(4)])
        places = [self._kept(int((lists.codes[number] >= 0).sum())) for number in list_of]
        self.results = Results(lists, list_of, padded(places, 9))
        self.context = Context(
            required=("source_url", "title", "chunk_index", "heading"),
            sources=self.sources,
            relevant_texts={chunk.chunk_id: chunk.text for chunk in self._made} if listed else None,
            seed=0,
            judging=self._judging(),
        )

    def alone(self, row: int, padding: int) -> Results:
        """Return a row over the candidates of its query under its variant alone, with ranks beyond its end."""
        lists, number = self.results.lists, int(self.results.list_of[row])
        query, places = int(lists.query[number]), self.results.places[row]
        one = self.pool.lists([int(lists.variant[number])], query, query + 1)
        kept = places[places >= 0].tolist()
        return Results(one, np.zeros(1, dtype=np.int64), padded([kept], max(1, len(kept)) + padding))

    def _kept(self, found: int) -> list[int]:
        part = self._rng.sample(range(found), self._rng.randint(0, found))
        return sorted(part)[: self._rng.choice([0, 2, 9])]

    def _chunk(self, chunk_id: str) -> Chunk:
        draw = self._rng
        return make_chunk(
            chunk_id,
            " ".join(draw.choices(WORDS, k=draw.randint(1, 6))),
            source_url=draw.choice(["/docs/a", "/docs/b c", "/docs/broken#x", "/docs/module-1/topics", None]),
            heading=draw.choice(["Publishers", "Topics", None]),
            section_path=draw.choice(["Topics > Publishers", None]),
            title=draw.choice(["Topics", "", None]),
            chunk_index=draw.choice([0, 1, 2, None]),
            total_chunks=draw.choice([2, 3, None]),
            chunk_token_count=draw.choice([None, 7]),
            tags=draw.choice([(), ("ros2",), None]),
        )

    def _case(self, number: int) -> Case:
        draw, values = self._rng, dict[str, Any]()
        if number % 4 == 1:
            values["relevant_ids"] = {}
        elif number % 4 == 2:
            values["evidence"] = [
                {"source_url": url, "heading": "Publishers"} for url in ("/docs/a", "/docs/module-1/topics")
            ]
        return make_case(
            f"q{number}",
            in_scope=number % 4 != 3,
            min_results=draw.choice([1, 3]),
            expected_topics=draw.choice([[], ["topic", "robot joint", "ros2", "arm"]]),
            source_url_pattern=draw.choice([None, "topics$"]),
            reference_answer=draw.choice([None, "A publisher sends a topic. The robot has a joint."]),
            **values,
        )

    def _relevance(self, case: Case) -> Relevance:
        draw = self._rng
        if not case.is_labelled:
            return Relevance()
        ids = sorted({chunk.chunk_id for chunk in self._made})
        known = draw.sample(ids, draw.randint(5, 25))
        grades = {chunk_id: draw.randint(1, 3) for chunk_id in known[: draw.randint(1, len(known))]}
        return Relevance(
            grades=grades,
            items=tuple(frozenset(draw.choices([*grades], k=2)) for _ in range(draw.choice([1, 3, 70]))),
            irrelevant=frozenset(known) - grades.keys(),
            incomplete=draw.choice(["", "", "not listed"]),
        )

    def _found(self, chunks: ChunkList, *, reranked: bool) -> Any:
        draw = self._rng
        found = draw.choices(self._made, k=draw.choice([0, 1, 5, 8]))
        ranks, cosines = draw.sample(range(1, 9), len(found)), sorted(draw.choices([0.2, 0.5, 0.6, 0.9], k=len(found)))
        hits = [
            RetrievedChunk(
                rank=rank, score=cosine, score_scale="cosine", chunk=chunk, scores={"semantic": cosine},
                original_rank=original if reranked else None,
            )
            for rank, (chunk, cosine, original) in enumerate(zip(found, reversed(cosines), ranks, strict=True), 1)
        ]  # fmt: skip
        facts: dict[str, Any] = {
            "no_cosine": draw.choice(["", "", "it gives no scores"]),
            "incomplete": draw.choice(["", "", "its result alone"]),
        }
        return found_candidates(hits, chunks, **facts)

    def _judging(self) -> Judging:
        draw, verdicts, scored = self._rng, dict[Any, Any](), dict[Any, Any]()
        given = [ChunkVerdict(verdict=verdict, reason="") for verdict in (0, 1, 1)]
        for observation in self.results.observations():
            asked, ids = observation.case.id, observation.selection.chunk_ids
            verdicts |= {(asked, key): draw.choice([*given * 5, FAILED, UNSCORED]) for key in ids[draw.randint(0, 1) :]}
            scored |= {
                (metric, asked, ids): draw.choice([0.25, 0.5, FAILED]) for metric in JUDGED if metric != PRECISION
            }
        drawn = frozenset(case.id for case in self.pool.cases[3:])
        return Judging(model="m", verdicts=verdicts, scores=scored, claims={}, drawn=drawn)


def padded(rows: Sequence[Sequence[int]], ranks: int) -> Any:
    return np.asarray([[*row, *[-1] * (ranks - len(row))] for row in rows])


@pytest.fixture(scope="module", params=[True, False], ids=["listed", "returned"])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    yield World(tmp_path_factory.mktemp("docs"), listed=request.param)


@pytest.mark.parametrize("of", [*OVER_QUERIES, *PROXIES.values()], ids=lambda of: of.name)
def test_the_score_of_many_rows_is_that_of_each_alone_whatever_the_padding(of: QueryMetric, world: World) -> None:
    together = of.values(world.results, world.context)
    rows, _ = world.results.of(of.scope, labelled=False)
    for row in range(len(world.results)):
        alone = of.values(world.alone(row, padding=row % 3), world.context)[0]
        if row not in rows:
            assert repr(together[row]) == repr(alone) == "nan", "of another scope there is neither a score nor a reason"
        else:
            assert together[row] == (pytest.approx(alone, abs=1e-12) if isinstance(alone, float) else alone)
            assert not isinstance(alone, float) or of.range[0] <= alone <= of.range[1] + 1e-12
    told = {repr(together[row]) for row in rows.tolist()}
    assert len(told) > 1 or world.context.relevant_texts is None or of.name == RELEVANCE_PROXY.name


def test_the_direction_of_every_metric_by_hand() -> None:
    times = {name for name in METRICS if name.startswith("latency/")}
    found = {name: declared(name).direction for name in METRICS}
    assert {name for name, way in found.items() if way == "lower"} == times | {
        "content/overlap", "content/duplicate_rate", "scope/false_answer", "scope/false_abstention",
        "scope/max_out_of_scope_score", "determinism/max_score_delta", "cost/context_tokens",
        "cost/judge_calls", "cost/judge_tokens", "cost/judge_usd",
    }  # fmt: skip
    assert {name for name, way in found.items() if way == "neither"} == {"cost/judge_cache_hits"}


@pytest.mark.parametrize("name", METRICS)
def test_every_row_has_a_name_that_mlflow_takes_a_line_about_it_and_a_range(name: str) -> None:
    from mlflow.utils.validation import _validate_metric_name

    row, (low, high) = declared(name), declared(name).range
    assert row.name == name and name.count("/") == 1
    for suffix in ("", ".ci_low", ".ci_high", ".n", ".n_failed"):
        _validate_metric_name(name + suffix)
    assert 0 < len(row.about) <= 110 and "\n" not in row.about and "{" not in row.about
    assert sum(row.about == other.about for other in METRICS.values()) == 1
    assert low < high and (row.unit != "share" or (low, high) == (0, 1))
    if name.startswith(("ragas/", "ranking/", "candidates/")) and isinstance(row, QueryMetric):
        assert row.scope == "in_scope", "the denominator is every query in scope"


def test_the_list_of_the_documentation_is_that_of_the_table() -> None:
    lines = {line.split()[0]: line for line in listing().splitlines()}
    assert lines.keys() == {*METRICS}
    assert lines["cost/judge_cache_hits"].split("  ", 1)[1].split() == (
        "calls, from 0 neither verdicts that needed no call".split()
    )
    assert "| `ranking/mrr_at_K` | score, 0 to 1 | higher | trec_eval 9, `recip_rank` | labels |" in markdown()


SPENT = Unscored(reason="spent", missing=True)


@pytest.mark.parametrize(
    ("scores", "value", "note", "counts", "bounds"),
    [
        ([], None, "no query of this kind", (0, 0, 0, 0), (None, None)),
        ([UNSCORED, UNSCORED], None, "no reference", (0, 2, 0, 0), (None, None)),
        ([FAILED, FAILED], None, "TimeoutError: no answer in 30 s", (0, 0, 2, 0), (0.0, 1.0)),
        ([FAILED, UNSCORED], None, "no reference", (0, 1, 1, 0), (0.0, 1.0)),
        # Two scored with mean 0.75, one failed: between 1.5 / 3 and 2.5 / 3.
        ([1.0, UNSCORED, 0.5, FAILED, UNSCORED], 0.75, None, (2, 2, 1, 0), (1.5 / 3, 2.5 / 3)),
        # What is missing counts in the bounds, and what does not exist does not.
        ([1.0, 0.5, SPENT, FAILED, UNSCORED], 0.75, None, (2, 2, 1, 1), (1.5 / 4, 3.5 / 4)),
    ],
)
def test_unscored_and_failed_stay_out_of_the_mean_but_beside_it(
    scores: list[Score], value: float | None, note: str | None, counts: tuple[int, ...], bounds: tuple[Any, ...]
) -> None:
    found = summarise("m", scores, "mean")
    assert (found.value, found.n, found.n_unscored, found.n_failed, found.n_missing) == (value, *counts)
    assert (found.bound_low, found.bound_high) == bounds
    assert note is None or (found.ci_low, found.note) == (None, note)


SCORES = st.lists(st.one_of(st.floats(0, 1), st.just(UNSCORED), st.just(FAILED)), max_size=30)


@given(SCORES, st.sampled_from(["mean", "amount"]))
def test_counts_add_up_bounds_hold_the_mean_and_nothing_is_nan(scores: list[Score], kind: Kind) -> None:
    found = summarise("m", scores, kind)
    assert found.n + found.n_unscored + found.n_failed == len(scores)
    figures = (found.value, found.ci_low, found.ci_high, found.bound_low, found.bound_high)
    assert all(figure is None or isfinite(figure) for figure in figures)
    assert (found.value is None) == (found.n == 0)
    assert (found.bound_low is None) == (found.bound_high is None) == (found.n_failed == 0)
    if found.value is not None and found.bound_low is not None and found.bound_high is not None:
        assert found.bound_low - 1e-12 <= found.value <= found.bound_high + 1e-12
    assert found.ci_low is not None or found.note


class TestChoose:
    def test_a_star_is_everything_that_there_is_a_judge_for(self) -> None:
        of_all = choose(["*"], [1, 4], judged=True)
        assert list(of_all) == [name for name in METRICS]
        assert list(choose(["*"], [1, 4])) == [name for name in METRICS if name not in NEED_A_JUDGE]

    @pytest.mark.parametrize("pattern", ["ragas/llm_context_recall", "ragas/llm_*", "cost/judge_usd"])
    def test_what_needs_a_judge_is_refused_by_name_without_one(self, pattern: str) -> None:
        with pytest.raises(ExperimentError, match=r"needs a judge, and there is none; name one, .*--judge\.model"):
            choose(["ranking/*", pattern], [1])
        assert choose([pattern], [1], judged=True).keys() <= NEED_A_JUDGE

    def test_patterns_pass_over_what_reads_further_than_the_lists_go(self) -> None:
        found = choose(["*"], [1], reach=RetrieverConfig(top_k=5, candidates=50))
        assert not {name for name in found if name.startswith("ranking/") and name.endswith("_10")}
        assert {"ranking/ndcg_at_5", "ranking/expected_top3_in_5", "candidates/recall_at_10"} <= {*found}
        assert not {"candidates/recall_at_100", "candidates/hit_rate_at_100"} & {*found}
        assert "ranking/expected_top3_in_5" not in choose(
            ["ranking/*"], [1], reach=RetrieverConfig(top_k=4, candidates=50)
        )

    def test_patterns_choose_in_the_order_of_the_registry_and_each_once(self) -> None:
        found = list(choose(["scope/*", "ranking/recall_*", "ranking/recall_at_5"], [1]))
        recalls = [f"ranking/recall_at_{k}" for k in (1, 3, 5, 10)]
        assert found == recalls + [name for name in METRICS if name.startswith("scope/")]

    def test_latency_is_chosen_only_at_the_concurrencies_that_are_measured(self) -> None:
        found = choose(["latency/total_p95_*"], [1, 8])
        assert set(found) == {"latency/total_p95_ms", "latency/total_p95_ms_c8"}

    @pytest.mark.parametrize(
        ("pattern", "near"),
        [("ranking/hitrate_at_5", "'ranking/hit_rate_at_5'"), ("ragas/id_context_presicion", "ragas/id_context_prec")],
    )
    def test_an_unknown_name_is_refused_with_the_nearest(self, pattern: str, near: str) -> None:
        with pytest.raises(ExperimentError) as caught:
            choose(["ranking/*", pattern], [1])
        assert f"metrics: no metric {pattern!r}; did you mean" in str(caught.value)
        assert near in str(caught.value) and "--list-metrics" in str(caught.value)
