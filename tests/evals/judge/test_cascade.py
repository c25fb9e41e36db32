"""Two judges on the loopback that err differently: what each is asked, and the means, against the definition."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evals.collect.observations import Summary
from evals.config.experiment import ExperimentConfig
from evals.errors import JudgeError
from evals.grid.measure import Measured
from evals.sampling.order import judging_order
from tests.support.chat_server import MODEL, CohereChatServer
from tests.support.experiment import settings
from tests.support.golden_labels import golden_labels
from tests.support.grid_world import Bench, make_world
from tests.support.judged import judge_of
from tests.support.judging import Flaws, Labels, Oracle, average_precision
from tests.support.openai_server import OpenAIChatServer

PRECISION = "ragas/llm_context_precision"
QUERIES = 60
SMALL, LARGE = f"cohere:{MODEL}", f"openai:{MODEL}"
Servers = tuple[CohereChatServer, OpenAIChatServer]
OF_SMALL, OF_LARGE = Flaws(false_useful=0.15, false_useless=0.2, seed=1), Flaws(false_useless=0.1, seed=2)


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> ExperimentConfig:
    made = make_world(tmp_path_factory.mktemp("world"), QUERIES)
    return settings(
        made,
        metrics=[PRECISION],
        objective__metrics={PRECISION: 1.0},
        retriever__candidates=8,
        retriever__threshold=0.0,
        sweep__mode=["semantic", "keyword"],
        sweep__top_k=[1, 3, 5],
        sweep__threshold=[0.0, 0.3],
        tracking__enabled=False,
        judge__model=SMALL,
    )


@pytest.fixture(scope="module")
def bench(config: ExperimentConfig) -> Bench:
    return Bench(config, {})


@pytest.fixture(scope="module")
def labels(config: ExperimentConfig, bench: Bench) -> dict[str, Labels]:
    with bench.opened([config.retriever]) as (retrievers, _):
        return golden_labels(bench.golden.cases, retrievers[0].chunks())


@pytest.fixture
def servers(labels: dict[str, Labels], monkeypatch: pytest.MonkeyPatch) -> Iterator[Servers]:
    """The small judge and the large one, whose address its provider's own variable names."""
    with (
        CohereChatServer(Oracle(labels, flaws=OF_SMALL)) as small,
        OpenAIChatServer(Oracle(labels, flaws=OF_LARGE)) as large,
    ):
        monkeypatch.setenv("OPENAI_BASE_URL", large.base_url)
        yield small, large


class Judged:
    """Runs of two judges, each with judges of its own."""

    def __init__(self, bench: Bench, config: ExperimentConfig, servers: Servers) -> None:
        self.bench, self.config, self.servers = bench, config, servers
        self.keys = {"COHERE_API_KEY": servers[0].key, "OPENAI_API_KEY": servers[1].key}

    def run(self, sample: Any, **changes: Any) -> Measured:
        second = {"model": LARGE, "sample": sample}
        with judge_of(self.servers[0], env=self.keys, second=second, **changes) as judge:
            return self.bench.run(self.config, self.config.retriever, judge)


@pytest.fixture
def judged(bench: Bench, config: ExperimentConfig, servers: Servers) -> Judged:
    return Judged(bench, config, servers)


def _score(oracle: Oracle, observation: Any) -> float:
    texts = [chunk.text for chunk in observation.selection.chunks]
    return average_precision([oracle.verdict(observation.case.query, text) for text in texts])


def _precision(result: Measured) -> Summary:
    return next(summary for summary in result.summaries if summary.metric == PRECISION)


def test_the_mean_is_corrected_by_the_cheap_judge_and_each_is_asked_about_its_queries_alone(judged: Judged) -> None:
    result, n = judged.run(0.5), 30
    summary = _precision(result)
    inside = {o.case.id: o for o in result.observed.observations if o.case.in_scope}
    order = judging_order((o.case for o in inside.values()), judged.config.seed)
    small, large = (np.array([_score(server.oracle, inside[key]) for key in order]) for server in judged.servers)
    assert summary.sampled is not None and 0 < summary.sampled.weight < 1
    gain = summary.sampled.weight * (small.mean() - small[:n].mean())
    assert summary.value == pytest.approx(large[:n].mean() + gain, abs=1e-8)
    slope = np.cov(small[:n], large[:n])[0, 1] / small[:n].var(ddof=1)
    explained = np.corrcoef(small[:n], large[:n])[0, 1] ** 2
    statistic = (n - 2) * explained / (1 - explained)
    assert summary.sampled.weight == pytest.approx(slope * (1 - 1 / statistic), abs=1e-8)
    assert (summary.n, summary.sampled.queries) == (n, QUERIES)
    assert summary.sampled.proxy == f"{PRECISION} by {SMALL}"
    texts = {o.case.id: o.case.query for o in result.observed.observations}
    for server, size in zip(judged.servers, (QUERIES, n), strict=True):
        asked = {name for name in order if any(texts[name] in chat.prompt for chat in server.chats)}
        assert asked == {o.case.id for o in inside.values() if o.case.id in order[:size] and o.selection}


def test_a_stronger_judge_on_all_queries_needs_no_other(judged: Judged) -> None:
    result = judged.run(1000)
    assert not judged.servers[0].chats and _precision(result).sampled is None
    assert _precision(result).n == QUERIES


def test_what_each_judge_did_is_told(judged: Judged) -> None:
    result = judged.run(15)
    assert result.judging is not None and result.context.trust is not None
    assert [tier.model for tier in result.judging.tiers] == [SMALL, LARGE]
    assert [tier.usage.calls for tier in result.judging.tiers] == [len(server.chats) for server in judged.servers]
    (agreement,) = result.context.trust.tiers
    assert agreement is not None
    small, large = (tier.verdicts for tier in result.judging.tiers)
    same = [small[key].verdict == large[key].verdict for key in large]  # type: ignore[union-attr]
    assert agreement.n_verdicts == len(same) and agreement.accuracy.value == pytest.approx(np.mean(same))


@pytest.mark.slow
def test_nothing_is_bought_twice_and_both_judges_have_verdicts_of_their_own(judged: Judged, tmp_path: Path) -> None:
    first = judged.run(15, store=tmp_path / "verdicts.sqlite")
    calls = [len(server.chats) for server in judged.servers]
    second = judged.run(15, store=tmp_path / "verdicts.sqlite")
    assert [len(server.chats) for server in judged.servers] == calls
    assert _precision(first) == _precision(second)


@pytest.mark.parametrize("refusing", [0, 1])
def test_a_judge_that_refuses_the_key_ends_the_run_after_one_query(judged: Judged, refusing: int) -> None:
    judged.servers[refusing].key = "another"
    with pytest.raises(JudgeError, match=f"{(SMALL, LARGE)[refusing]} refuses every call: .* judge.api_key_env"):
        judged.run(15)
    other = judged.servers[1 - refusing]
    assert len({chat.prompt for chat in other.chats}) <= judged.config.retriever.top_k
    # The strongest is asked first.
    assert bool(other.chats) == (refusing == 0)


def test_a_budget_is_for_all_judges_together(judged: Judged) -> None:
    result = judged.run(15, budget={"calls": 100}, max_concurrency=1)
    assert sum(len(server.chats) for server in judged.servers) == 100
    assert result.judging is not None and "the budget of 100 calls is spent" in result.judging.incomplete
    # The strong one was asked first; for the small one's other scores stand those by the labels.
    summary = _precision(result)
    assert summary.n == 15 and summary.value is not None and summary.sampled is not None
    assert all(isinstance(score, float) for score in result.proxies[PRECISION].values())
