"""Judged grids, a judge on the loopback that errs: what a proof asks and says, and what a sample of queries tells."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evals.collect.observations import Failure, Score, Summary, Unscored
from evals.config.experiment import ExperimentConfig, ObjectiveConfig
from evals.experiment.bench import index_if_stale
from evals.grid.sampled import sampled_summary
from evals.report.grid import grid_section
from evals.report.parsing import cell_report
from evals.sampling.corrected import corrected
from evals.sampling.order import NOT_DRAWN, judging_order
from tests.support.chat_server import KEYS, MODEL, CohereChatServer, OpenAIChatServer
from tests.support.experiment import settings, silent
from tests.support.grid_world import make_world, measured
from tests.support.judged import settings as judge_settings
from tests.support.judged_experiment import PRECISION, known_of
from tests.support.judging import Oracle
from tests.support.observed import metric_of
from tests.support.results import report

SMALL, LARGE = f"cohere:{MODEL}", f"openai:{MODEL}"
Servers = tuple[CohereChatServer, OpenAIChatServer]
QUERIES = 60
# The judges agree with each other, and less with the labels.
STRONG: Any = {"false_useful": 0.1, "false_useless": 0.35, "seed": 3}


class JudgedRounds:
    def __init__(self, folder: Path) -> None:
        self.config: ExperimentConfig = settings(
            make_world(folder, QUERIES),
            metrics=[PRECISION],
            objective={"metrics": {PRECISION: 1.0}, "out_of_scope": 0},
            retriever__candidates=8,
            sweep={"mode": ["semantic", "keyword", "hybrid"], "top_k": [1, 2, 3, 5, 8], "threshold": [0.0, 0.3]},
        )
        index_if_stale(self.config, {}, silent)
        self.cases, _, oracle = known_of(self.config)
        self.labels, self.store = oracle.labels, folder / "verdicts.sqlite"

    def grid(self, server: CohereChatServer, config: ExperimentConfig | None = None, **changes: Any) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            judge = judge_settings(server, **{"cache_path": Path(folder) / "verdicts.sqlite", **changes})
            return measured((config or self.config).model_copy(update={"judge": judge}), KEYS)


@pytest.fixture(scope="module")
def judged_world(tmp_path_factory: pytest.TempPathFactory) -> JudgedRounds:
    return JudgedRounds(tmp_path_factory.mktemp("judged_world"))


@pytest.fixture(scope="module")
def server(judged_world: JudgedRounds) -> Iterator[CohereChatServer]:
    with CohereChatServer(Oracle(judged_world.labels, false_useful=0.05, false_useless=0.1)) as running:
        yield running


@pytest.fixture
def servers(judged_world: JudgedRounds, monkeypatch: pytest.MonkeyPatch) -> Iterator[Servers]:
    with (
        CohereChatServer(Oracle(judged_world.labels, **STRONG)) as small,
        OpenAIChatServer(Oracle(judged_world.labels, **STRONG)) as large,
    ):
        monkeypatch.setenv("OPENAI_BASE_URL", large.base_url)
        yield small, large


def test_a_cell_of_its_report_keeps_which_queries_were_not_drawn(judged_world: JudgedRounds, server: Any) -> None:
    made = report(judged_world.grid(server, sample=20))
    assert made.grid is not None and made.grid.chosen is not None
    alone = cell_report(made, made.grid.addresses[made.grid.chosen])
    column = [row.scores.get(PRECISION) for row in alone.queries]
    assert column == [row.scores.get(PRECISION) for row in made.queries] and NOT_DRAWN in column


def by_both(world: JudgedRounds, servers: Servers, **changes: Any) -> Any:
    return world.grid(servers[0], second={"model": LARGE}, stop={"margin": 0.03}, **changes)


def holds(result: Any, everything: Any, margin: float) -> Any:
    proof, means = result.swept.proof, everything.swept.ranking.values
    assert result.swept.chosen is not None and proof.within[result.swept.chosen] <= margin
    below, known = means.max() - means, np.isfinite(proof.within)
    assert (below[known] <= proof.within[known] + 1e-9).all()
    assert not proof.remaining[below > 0.15].any() and proof.remaining[int(means.argmax())]
    return proof


@pytest.mark.slow
def test_a_proof_is_true_of_all_verdicts_and_takes_fewer_of_them_where_labels_have_a_part_in_the_objective(
    judged_world: JudgedRounds, server: CohereChatServer
) -> None:
    objective = ObjectiveConfig(metrics={PRECISION: 0.5, "ranking/ndcg_at_3": 0.5})
    config = judged_world.config.model_copy(update={"objective": objective})
    before = len(server.chats)
    everything = judged_world.grid(server, config)
    calls = len(server.chats) - before
    proof = holds(judged_world.grid(server, config, stop={"margin": 0.05}), everything, 0.05)
    # Of two chunks with the same text the model is asked once.
    assert proof.verdicts - 2 <= len(server.chats) - before - calls <= proof.verdicts < proof.all_questions * 0.75
    assert calls <= proof.all_questions <= calls + 2


def test_a_dropped_cell_buys_nothing_further(judged_world: JudgedRounds, server: CohereChatServer) -> None:
    before = len(server.chats)
    result = judged_world.grid(server, stop={"margin": 0.0})
    proof, grid = result.swept.proof, result.swept.grid
    prompts = {chat.prompt for chat in server.chats[before:]}
    texts = {case.id: case.query for case in judged_world.cases}
    drawn = proof.judged
    dropped = drawn.sum(axis=0) < proof.n
    assert dropped.any() and not dropped[proof.remaining].any()
    for cell in np.flatnonzero(dropped).tolist():
        scores = grid.matrix(metric_of(PRECISION), result.context)[:, cell]
        assert not np.isnan(scores[drawn[:, cell]]).any()
    # On a query that none of these was judged on, the judge saw what the others return, and nothing else.
    late = np.flatnonzero(~drawn[:, dropped].any(axis=1) & drawn[:, ~dropped].all(axis=1)).tolist()
    for row in late:
        own = [list(grid.results(cell).observations())[row] for cell in np.flatnonzero(~dropped).tolist()]
        returned = {chunk.text for observation in own for chunk in observation.selection.chunks}
        assert sum(texts[grid.pool.cases[row].id] in prompt for prompt in prompts) == len(returned)
    assert late


@pytest.mark.slow
def test_what_the_cheap_judge_foretells_is_proved_with_fewer_verdicts_of_the_strong_one(
    judged_world: JudgedRounds, servers: Servers
) -> None:
    result = by_both(judged_world, servers)
    asked = [len(server.chats) for server in servers]
    with CohereChatServer(servers[1].oracle) as alone:
        proof = holds(result, judged_world.grid(alone), 0.03)
        by_labels = judged_world.grid(alone, stop={"margin": 0.03}).swept.proof
    # Of two chunks with the same text the model is asked once.
    assert proof.all_questions - 2 <= asked[0] <= proof.all_questions
    assert proof.verdicts - 2 <= asked[1] <= proof.verdicts < 0.85 * by_labels.verdicts
    assert result.judging is not None and [tier.usage.calls for tier in result.judging.tiers] == asked
    sample = result.swept.grid.metrics[PRECISION].sample
    assert sample is not None and sample.name == f"{PRECISION} by {SMALL}"


@pytest.mark.parametrize("calls", [6, 60])
def test_a_budget_that_ends_in_the_first_round_or_with_the_cheap_judge_proves_nothing(
    judged_world: JudgedRounds, servers: Servers, calls: int
) -> None:
    budget: dict[str, Any] = {"budget": {"calls": calls}, "max_concurrency": 1}
    one_judge = {"stop": {"margin": 0.05}, **budget}
    result = judged_world.grid(servers[0], **one_judge) if calls == 6 else by_both(judged_world, servers, **budget)
    assert sum(len(server.chats) for server in servers) == calls
    proof, told = result.swept.proof, grid_section(result.swept, None).proof
    assert proof.chosen is None and proof.remaining.all() and not np.isfinite(proof.within).any()
    assert f"the budget of {calls} calls is spent" in "".join(result.notes)
    assert f"cannot be compared, as the budget of {calls} calls is spent, with" in told
    assert (f"with 6 of {proof.all_questions} verdicts" in told) == (calls == 6)  # where a call is a verdict


# A sample of the queries is judged

DRAWN = 24


def test_all_cells_are_judged_on_the_beginning_of_the_order_and_corrected_with_one_weight(
    judged_world: JudgedRounds, server: CohereChatServer
) -> None:
    store: dict[str, Any] = {"cache_path": judged_world.store}
    sampled, whole = judged_world.grid(server, sample=DRAWN, **store), judged_world.grid(server, **store)
    drawn = set(judging_order(judged_world.cases, judged_world.config.seed)[:DRAWN])
    assert sampled.judging is not None and sampled.judging.drawn == frozenset(drawn)
    metric, grid = metric_of(PRECISION), sampled.swept.grid
    assert metric.proxy is not None
    inside = [case.in_scope for case in grid.pool.cases]
    verdicts, labelled = (grid.matrix(each, sampled.context)[inside] for each in (metric, metric.proxy))
    ids = [case.id for case in grid.pool.cases if case.in_scope]
    for column in verdicts.T:
        assert {key for key, score in zip(ids, column.tolist(), strict=True) if not np.isnan(score)} == drawn
    expected, found = corrected(verdicts, labelled), grid.metrics[PRECISION]
    assert 0.3 < expected.weight <= 1 and expected.n == DRAWN
    assert found.sample is not None and (set(found.n.tolist()), found.n_common) == ({DRAWN}, DRAWN)
    assert found.mean == pytest.approx(expected.means)
    assert np.array(found.sample.ends) == pytest.approx(np.array(expected.interval()))
    # What compares cells has their means, and equal columns where they return the same.
    values = found.sample.comparable[inside]
    assert values.shape == (QUERIES, len(grid)) and np.isfinite(values).all()
    assert values.mean(axis=0) == pytest.approx(found.mean)
    both = np.nan_to_num(np.vstack([verdicts, labelled]), nan=-1.0)
    alike = [(a, b) for a in range(len(grid)) for b in range(a) if np.array_equal(both[:, a], both[:, b])]
    assert alike and all(values[:, a] == pytest.approx(values[:, b]) for a, b in alike)
    # The best of them is near the best by all verdicts, and a run of the recommended cell has its mean.
    means, choice = whole.swept.grid.metrics[PRECISION].mean, sampled.swept.choice
    assert (choice.best.cell, choice.judged, whole.swept.choice.judged) == (int(found.mean.argmax()), DRAWN, None)
    assert means[choice.best.cell] > means.max() - 0.03
    [summary] = (summary for summary in sampled.summaries if summary.metric == PRECISION)
    assert summary.value == pytest.approx(found.mean[sampled.swept.chosen or 0])
    assert summary.sampled is not None and (summary.n, summary.sampled.queries) == (DRAWN, QUERIES)


def test_a_sample_of_which_one_query_has_an_answer_ranks_no_cells(
    judged_world: JudgedRounds, server: CohereChatServer, tmp_path: Path
) -> None:
    first = judging_order(judged_world.cases[:3], judged_world.config.seed)[0]
    written = [case.model_dump(mode="json", exclude_unset=True) for case in judged_world.cases[:3]]
    rows = [json.dumps(row | ({"reference_answer": None} if row["id"] == first else {})) for row in written]
    (file := tmp_path / "golden.jsonl").write_text("\n".join(rows))
    dataset = judged_world.config.dataset.model_copy(update={"path": file})
    swept = judged_world.grid(server, judged_world.config.model_copy(update={"dataset": dataset}), sample=2).swept
    assert (swept.chosen, swept.ranking.reason) == (None, f"{PRECISION} scores no query")


def test_auto_judges_until_the_interval_is_nearly_that_of_all(
    judged_world: JudgedRounds, server: CohereChatServer
) -> None:
    judging = judged_world.grid(server, sample="auto", cache_path=judged_world.store).judging
    assert judging is not None and judging.drawn is not None and 20 <= len(judging.drawn) <= QUERIES
    order = judging_order(judged_world.cases, judged_world.config.seed)
    assert judging.drawn == frozenset(order[: len(judging.drawn)])


def test_auto_judges_few_where_the_cheap_judge_agrees_though_labels_do_not(
    judged_world: JudgedRounds, servers: Servers
) -> None:
    few = judged_world.config.sweep.model_copy(update={"mode": ("semantic",), "top_k": (1, 3), "threshold": (0.0,)})
    config, second = judged_world.config.model_copy(update={"sweep": few}), {"model": LARGE, "sample": "auto"}
    judging = judged_world.grid(servers[0], config, second=second).judging
    assert judging is not None and judging.drawn is not None and len(judging.drawn) == 20


def test_of_a_failed_query_the_bounds_are_those_where_it_counts_0_and_1() -> None:
    rng = np.random.default_rng(0)
    labels = rng.choice([0.0, 0.5, 1.0], 60).tolist()
    scores: list[Score] = [*np.clip(labels + rng.normal(0, 0.1, 60), 0, 1).tolist()[1:20], *[NOT_DRAWN] * 40]

    def summary(first: Score, *more: Score) -> Summary:
        return sampled_summary(
            metric_of(PRECISION), [first, *scores, *more], [*labels, *[0.0] * len(more)], "labels", weight=None
        )

    found = summary(Failure(failed="Timeout: "), Unscored(reason="the case has no reference answer"))
    assert found.sampled and (found.n, found.n_failed, found.n_unscored, found.sampled.queries) == (19, 1, 1, 60)
    lost, won = summary(0.0), summary(1.0)
    lows, highs = ((lost.bound_low or 0, won.bound_low or 0), (lost.bound_high or 0, won.bound_high or 0))
    assert (found.bound_low, found.bound_high) == pytest.approx((min(lows), max(highs)))
