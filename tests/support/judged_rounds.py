"""Grids over sixty queries with a judge on the loopback that errs now and then."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from evals.cases.case import Case
from evals.config.experiment import ExperimentConfig
from evals.grid.measure import Measured
from tests.support.chat_server import CohereChatServer
from tests.support.experiment import settings
from tests.support.grid_world import Bench, make_world
from tests.support.judged import judge_of
from tests.support.judging import Flaws, Oracle, golden_labels

PRECISION = "ragas/llm_context_precision"
QUERIES = 60


class JudgedRounds:
    """A world of sixty queries and thirty cells, and grids over it."""

    def __init__(self, folder: Path) -> None:
        made = make_world(folder, QUERIES)
        self.config: ExperimentConfig = settings(
            made,
            metrics=[PRECISION],
            objective__metrics={PRECISION: 1.0},
            retriever__candidates=8,
            sweep__mode=["semantic", "keyword", "hybrid"],
            sweep__top_k=[1, 2, 3, 5, 8],
            sweep__threshold=[0.0, 0.3],
            tracking__enabled=False,
            judge__model="cohere:command-a-03-2025",
        )
        self.bench = Bench(self.config, {})
        with self.bench.opened([self.config.retriever]) as (retrievers, _):
            self.labels = golden_labels(self.bench.golden.cases, retrievers[0].chunks())

    def server(self) -> CohereChatServer:
        """Return the judge's server; it takes some of both kinds of chunk for the other."""
        return CohereChatServer(Oracle(self.labels, flaws=Flaws(false_useful=0.05, false_useless=0.1)))

    def grid(
        self,
        server: CohereChatServer,
        config: ExperimentConfig | None = None,
        cases: Sequence[Case] | None = None,
        **changes: Any,
    ) -> Measured:
        """Return the sweep, with other settings of the judge, over other golden queries where some are given."""
        whole = self.bench.golden
        self.bench.golden = whole if cases is None else replace(whole, cases=tuple(cases))
        try:
            with judge_of(server, **changes) as judge:
                return self.bench.grid(config or self.config, judge)
        finally:
            self.bench.golden = whole
