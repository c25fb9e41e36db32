"""A collection small enough for many runs and rich enough to tell them apart: ties, equal texts, all kinds of query."""

import random
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from evals.cases.reading import GoldenSet
from evals.config.experiment import ExperimentConfig, SweepConfig
from evals.experiment.flow import run_experiment
from evals.experiment.outputs import Outputs
from evals.grid.objective import needed
from retrievers.config import RetrieverConfig
from tests.support.experiment import SETTINGS, Experiment, make_experiment, settings

WORDS = (
    "arm base joint link motor gear torque sensor camera depth wheel track leg gait plan path map pose frame topic "
    "service action node message clock cable battery charge brake gripper finger"
).split()
SAME = "See the glossary for the words that are used here, and the index for where they are explained."
PAGES, SECTIONS = 6, 4
OUTSIDE = {"soup": "onion soup", "france": "capital of France", "close": "glossary of joint and motor"}


def make_world(folder: Path, queries: int = 8) -> Experiment:
    """Return six pages of four sections and a shared one; so many golden queries, and three out of scope."""
    rng = random.Random(7)
    texts = {place: " ".join(rng.choices(WORDS, k=14)) + "." for place in product(range(PAGES), range(SECTIONS))}
    made = make_experiment(folder)
    made.write_pages({f"p{page}.md": _page(page, texts) for page in range(PAGES)})
    outside = ({"id": name, "query": query, "in_scope": False} for name, query in OUTSIDE.items())
    made.write_golden([*_inside(texts, rng, queries), *outside])
    # The shared section is one text, and of one score, on all pages.
    made.write_config({**SETTINGS, "index": {**SETTINGS["index"], "context": "none"}})
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
                {"source_url": f"/docs/p{page}", "quote": texts[page, section], "grade": 1 + at % 2}
                for at, (page, section) in enumerate(places)
            ],
            "reference_answer": f"It is said that {texts[places[0]]}",
            "expected_topics": words.split()[:2],
            "source_url_pattern": f"p{places[0][0]}$",
        }


def measured(config: ExperimentConfig, env: Mapping[str, str] | None = None, golden: GoldenSet | None = None) -> Any:
    return run_experiment(config, Outputs(), env or {}, shown=False, golden=golden).result


def alone(config: ExperimentConfig, retriever: RetrieverConfig, **given: Any) -> Any:
    metrics = (*config.metrics, *needed(config.objective))
    own = {"retriever": retriever, "sweep": SweepConfig(), "metrics": metrics}
    return measured(config.model_copy(update=own), **given)


# A finished grid of it

SWEEP = {"mode": ["semantic", "hybrid"], "top_k": "1:5", "threshold": "0:0.9:0.1"}
METRICS = ["ranking/*", "ragas/id_*", "scope/*", "latency/total_p50_ms", "queries/*"]
SIDE = {"out_of_scope": 0}


def swept(world: Experiment, **changes: Any) -> ExperimentConfig:
    """Return the settings of 100 cells: two modes, ten thresholds, five cuts."""
    return settings(world, **{"metrics": METRICS, "sweep": SWEEP, "retriever__candidates": 20, **changes})


def make_grid(folder: Path, **changes: Any) -> Any:
    return measured(swept(make_world(folder), **changes))
