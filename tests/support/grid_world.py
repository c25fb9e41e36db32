"""A collection small enough for many runs and rich enough to tell them apart: ties, equal texts, all kinds of query."""

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from evals.cases.reading import GoldenSet, load_golden
from evals.collect.pool import Grounds, ground
from evals.config.experiment import ExperimentConfig
from evals.experiment.bench import index_if_stale
from evals.grid.axes import plan
from evals.grid.choice import Choice
from evals.grid.judging import CellProof
from evals.grid.measure import Measured, Swept, alone, measure_pool, retrieve
from evals.grid.objective import needed
from evals.judge.judge import Judge
from evals.metrics.declaration import Collaborators
from retrievers.config import RetrieverConfig
from retrievers.retriever.opened import open_retriever
from retrievers.retriever.protocol import Retriever
from tests.support.experiment import Experiment, evidence, make_experiment, settings, silent

WORDS = (
    "arm base joint link motor gear torque sensor camera depth wheel track leg gait plan path map pose frame topic "
    "service action node message clock cable battery charge brake gripper finger"
).split()
SAME = "See the glossary for the words that are used here, and the index for where they are explained."
PAGES, SECTIONS = 6, 4


def make_world(folder: Path, queries: int = 8) -> Experiment:
    """Return six pages of four sections and a shared one; so many golden queries, and three out of scope."""
    rng = random.Random(7)
    texts = {
        (page, section): " ".join(rng.choices(WORDS, k=14)) + "."
        for page in range(PAGES)
        for section in range(SECTIONS)
    }
    made = make_experiment(folder)
    made.write_pages({f"p{page}.md": _page(page, texts) for page in range(PAGES)})
    made.write_golden([*_inside(texts, rng, queries), *_outside()])
    return made


def _page(page: int, texts: Mapping[tuple[int, int], str]) -> str:
    sections = [f"## Section {section}\n\n{texts[page, section]}\n" for section in range(SECTIONS)]
    return f"---\ntitle: Page {page}\n---\n\n# Page {page}\n\n" + "\n".join(sections) + f"\n## See also\n\n{SAME}\n"


def _inside(texts: Mapping[tuple[int, int], str], rng: random.Random, queries: int) -> Iterator[dict[str, Any]]:
    for number in range(queries):
        places = rng.sample(sorted(texts), k=1 + number % 4)
        words = " ".join(rng.sample(texts[places[0]].rstrip(".").split(), k=4))
        yield {
            "id": f"in{number}",
            "query": f"{words} glossary" if number == 3 else words,
            "evidence": [
                evidence(f"p{page}", texts[page, section], grade=1 + at % 2)
                for at, (page, section) in enumerate(places)
            ],
            "reference_answer": f"It is said that {texts[places[0]]}",
            "expected_topics": words.split()[:2],
            "source_url_pattern": f"p{places[0][0]}$",
        }


def _outside() -> Iterator[dict[str, Any]]:
    for name, query in (
        ("soup", "onion soup"),
        ("france", "capital of France"),
        ("close", "glossary of joint and motor"),
    ):
        yield {"id": name, "query": query, "in_scope": False}


class Bench:
    def __init__(self, config: ExperimentConfig, env: Mapping[str, str]) -> None:
        # The shared section is one text, and of one score, on all pages.
        index = config.index.model_copy(update={"context": "none"})
        index_if_stale(config.model_copy(update={"index": index}), env, silent)
        self.env = env
        self.golden: GoldenSet = load_golden(config.dataset)

    def grid(self, config: ExperimentConfig, judge: Judge | None = None) -> Measured:
        planned = plan(config.retriever, config.sweep)
        with self.opened([variant.settings for variant in planned.variants]) as (retrievers, grounds):
            collaborators = Collaborators(retrievers=retrievers, progress=silent, judge=judge)
            return measure_pool(config, retrieve(planned, self.golden, grounds, collaborators), collaborators, planned)

    def run(self, config: ExperimentConfig, settings: RetrieverConfig, judge: Judge | None = None) -> Measured:
        metrics = (*config.metrics, *needed(config.objective))
        none = type(config.sweep).model_validate({})
        own = config.model_copy(update={"retriever": settings, "sweep": none, "metrics": metrics})
        with self.opened([settings]) as (retrievers, grounds):
            collaborators = Collaborators(retrievers=retrievers, progress=silent, judge=judge)
            return measure_pool(own, retrieve(alone(own), self.golden, grounds, collaborators), collaborators)

    @contextmanager
    def opened(self, settings: Sequence[RetrieverConfig]) -> Iterator[tuple[list[Retriever], Grounds]]:
        with ExitStack() as stack:
            retrievers = [stack.enter_context(open_retriever(one, env=self.env)) for one in settings]
            yield retrievers, ground(self.golden, retrievers[0])


# A finished grid of it

SWEEP = {"mode": ["semantic", "hybrid"], "top_k": "1:5", "threshold": "0:0.9:0.1"}
METRICS = ["ranking/*", "ragas/id_*", "scope/*", "latency/total_p50_ms", "queries/*"]


def make_grid(folder: Path, **changes: Any) -> Measured:
    """Return 100 cells: two modes, ten thresholds, five cuts."""
    world = make_world(folder)
    values = {"metrics": METRICS, "sweep": SWEEP, "retriever__candidates": 20, **changes}
    return Bench(settings(world), {}).grid(settings(world, **values))


def swept_of(made: Measured) -> Swept:
    assert made.swept is not None
    return made.swept


def with_swept(made: Measured, **changes: Any) -> Measured:
    return replace(made, swept=replace(swept_of(made), **changes))


def choice_of(made: Measured) -> Choice:
    choice = swept_of(made).choice
    assert choice is not None
    return choice


def proof_of(made: Measured) -> CellProof:
    proof = swept_of(made).proof
    assert proof is not None
    return proof
