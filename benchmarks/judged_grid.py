"""What a grid of LLM metrics costs besides the model: Cranfield, depth 20, 400 cells, context precision and recall.

python benchmarks/judged_grid.py --data DIR [--only ours,ragas] [--cells 20]

DIR holds cran.all.1400.xml, cran.qry.xml and cranqrel.trec.txt. top_k 1:20 × threshold 0:0.95:0.05, 225 queries. The
model is in this process and answers at once, from the relevance judgements (see judge.py); what its answers take is
measured and taken off. `ours` is everything that `python -m evals.run` does once the candidates are there: verdicts,
with a verdict store on disk, the metrics of every cell, the choice (9,000 calls and 20 s of CPU allowed). `ragas` is
its `evaluate` cell by cell at its best, its disk cache on: some cells are measured, drawn at random, and 400
extrapolated by their prompts.
"""

import argparse
import json
import logging
import os
import random
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DEPTH = 20
TOP_KS = tuple(range(1, DEPTH + 1))
THRESHOLDS = tuple(step / 20 for step in range(20))
METRICS = ("ragas/llm_context_precision", "ragas/llm_context_recall")
ALLOWED_CALLS, ALLOWED_CPU = 9_000, 20


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What something took: seconds on the clock, of the processor, calls of the model."""

    wall: float
    cpu: float
    calls: int


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the collection")
    parser.add_argument("--only", default="ours,ragas", help="parts to measure")
    parser.add_argument("--cells", type=int, default=20, help="cells that ragas is measured on")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    from evals.config.telemetry import silence

    silence(hub=False)
    logging.disable(logging.ERROR)  # ragas logs every empty result as an error
    from benchmarks.judge import cranfield, warm_up

    warm_up()
    with tempfile.TemporaryDirectory() as folder:
        observations, labels = cranfield(options.data, Path(folder), DEPTH)
        print(f"{len(observations)} queries, {len(TOP_KS) * len(THRESHOLDS)} cells; load {os.getloadavg()[0]:.1f}")
        wanted = options.only.split(",")
        if "ours" in wanted:
            ours(observations, labels, Path(folder))
        if "ragas" in wanted:
            ragas(observations, Path(folder) / "ragas", options.cells)


def ours(observations: Sequence[Any], labels: Any, folder: Path) -> None:
    """The whole grid, and what the model itself took of it."""
    from benchmarks.judge import in_process

    chat = in_process(labels, 0.0)
    answering = Answering(chat.model)
    grid, cost = evaluated(observations, chat, folder / "verdicts.sqlite")
    print(
        f"{'ours: judge, score and choose':<48} {cost.wall:7.1f} s wall {cost.cpu:7.1f} s CPU  {cost.calls:,} calls\n"
        f"{'  of it the model, answering':<48} {'':>7}        {answering.cpu:7.1f} s CPU\n"
        f"{'  our own':<48} {'':>7}        {cost.cpu - answering.cpu:7.1f} s CPU"
    )
    own = (cost.cpu - answering.cpu) / ALLOWED_CPU
    print(f"calls over the {ALLOWED_CALLS:,} there have to be {cost.calls / ALLOWED_CALLS:.4f}; "
          f"own CPU {own:.2f} of {ALLOWED_CPU} s allowed")  # fmt: skip
    _, again = evaluated(observations, chat, folder / "verdicts.sqlite")
    print(f"{'ours again, every verdict in the store':<48} {again.wall:7.1f} s wall {again.cpu:7.1f} s CPU  "
          f"{again.calls:,} calls; {len(grid):,} cells")  # fmt: skip


class Answering:
    """Adds up the processor time of a model's answers, each in its own thread."""

    def __init__(self, model: Any) -> None:
        self.spent: list[float] = []
        plain = type(model)._generate

        def timed(model: Any, *arguments: Any, **options: Any) -> Any:
            start = time.thread_time()
            said = plain(model, *arguments, **options)
            self.spent.append(time.thread_time() - start)
            return said

        type(model)._generate = timed

    @property
    def cpu(self) -> float:
        """Seconds so far."""
        return sum(self.spent)


def evaluated(observations: Sequence[Any], chat: Any, store: Path) -> tuple[Any, Cost]:
    """The grid, judged, scored and chosen from, as a run does it; what it took."""
    from evals.config.experiment import ExperimentConfig
    from evals.grid.axes import plan
    from evals.grid.measure import measure_pool
    from evals.judge.judge import Judge
    from evals.judge.store import VerdictStore
    from evals.metrics.collaborators import Collaborators
    from tests.support.scored import results_of

    sweep = {"top_k": list(TOP_KS), "threshold": list(THRESHOLDS)}
    judge_settings = {"model": f"{chat.provider}:{chat.name}", "max_concurrency": 16, "rejudge": 0}
    config = ExperimentConfig.model_validate(
        {
            "metrics": list(METRICS),
            "judge": judge_settings,
            "sweep": sweep,
            "objective": {"metrics": {METRICS[0]: 1.0}},
            "retriever": {"candidates": DEPTH, "top_k": DEPTH},
        }
    )
    planned = plan(config.retriever, config.sweep)
    pool = replace(results_of(observations).lists.pool, texts={}, notes=((),))
    judge = Judge(config.judge, chat, VerdictStore(store))
    collaborators = Collaborators(retrievers=(), progress=lambda stage, done, total: None, judge=judge)
    wall, cpu = time.perf_counter(), time.process_time()
    result = measure_pool(config, pool, collaborators, planned)
    taken = Cost(
        wall=time.perf_counter() - wall,
        cpu=time.process_time() - cpu,
        calls=result.judging.usage.calls if result.judging else 0,
    )
    judge.close()
    assert result.swept is not None
    return result.swept.grid, taken


def ragas(observations: Sequence[Any], folder: Path, cells: int) -> None:
    """`ragas.evaluate` on some of the cells, with its disk cache; 400 extrapolated."""
    rng = random.Random(0)
    every = [(top_k, threshold) for top_k in TOP_KS for threshold in THRESHOLDS]
    chosen = rng.sample(every, min(cells, len(every)))
    peer = Peer(folder)
    peer.evaluate([cut(o, *chosen[0]) for o in observations[:2]])  # imports, and what it reads once
    peer.calls = 0
    wall, cpu = time.perf_counter(), time.process_time()
    for top_k, threshold in chosen:
        peer.evaluate([cut(o, top_k, threshold) for o in observations])
    cost = Cost(wall=time.perf_counter() - wall, cpu=time.process_time() - cpu, calls=peer.calls)
    asked, all_asked = (prompts(observations, some) for some in (chosen, every))
    print(
        f"{f'ragas with its disk cache, {len(chosen)} cells':<48} {cost.wall:7.1f} s wall {cost.cpu:7.1f} s CPU  "
        f"{cost.calls:,} calls, {asked:,} prompts\n"
        f"{f'the same, {len(every)} cells, extrapolated by prompts':<48} {'':>7}        "
        f"{cost.cpu * all_asked / asked:7.1f} s CPU  {all_asked:,} prompts"
    )


def cut(observation: Any, top_k: int, threshold: float) -> tuple[Any, list[str]]:
    """The case and the texts that a cell keeps."""
    kept = [hit for hit in observation.candidates if hit.scores["semantic"] >= threshold][:top_k]
    return observation.case, [hit.chunk.text for hit in kept]


def prompts(observations: Sequence[Any], cells: Sequence[tuple[int, float]]) -> int:
    """What ragas asks or looks up: one prompt a chunk for precision, one a query for recall."""
    return sum(len(cut(o, *cell)[1]) + 1 for cell in cells for o in observations)


class Peer:
    """ragas as fast as it gets: an asynchronous model made for it that answers at once, and its disk cache."""

    def __init__(self, folder: Path) -> None:
        warnings.simplefilter("ignore")
        from langchain_core.outputs import Generation, LLMResult
        from ragas.cache import DiskCacheBackend, cacher
        from ragas.llms.base import BaseRagasLLM

        said = {True: {"reason": "r", "verdict": 1}, False: {"classifications": [
            {"statement": "s", "reason": "r", "attributed": 1}]}}  # fmt: skip
        peer = self

        class Fake(BaseRagasLLM):  # type: ignore[misc]
            def generate_text(self, prompt: Any, *args: Any, **kwargs: Any) -> Any:
                raise NotImplementedError

            async def agenerate_text(self, prompt: Any, *args: Any, **kwargs: Any) -> Any:
                peer.calls += 1
                text = json.dumps(said['"classifications"' not in prompt.to_string()])
                return LLMResult(generations=[[Generation(text=text)]])

            def is_finished(self, response: Any) -> bool:
                return True

        self.calls = 0
        self.model = Fake()
        remembered = cacher(DiskCacheBackend(str(folder)))(self.model.agenerate_text)
        self.model.agenerate_text = remembered  # type: ignore[method-assign]

    def evaluate(self, found: Sequence[tuple[Any, list[str]]]) -> None:
        """One cell."""
        from datasets import Dataset
        from ragas import evaluate
        from ragas.metrics import LLMContextPrecisionWithReference, LLMContextRecall
        from ragas.run_config import RunConfig

        rows = [
            {"user_input": case.query, "reference": case.reference_answer, "retrieved_contexts": texts}
            for case, texts in found
        ]
        evaluate(
            Dataset.from_list(rows),
            metrics=[LLMContextPrecisionWithReference(), LLMContextRecall()],
            llm=self.model,
            run_config=RunConfig(max_workers=16),
            show_progress=False,
        )


if __name__ == "__main__":
    main()
