"""A small experiment on disk: five sections about robots, six golden queries, settings that run in a moment.

Its files are those of `pages/robots`.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from evals.config.experiment import ExperimentConfig
from evals.experiment.bench import index_if_stale
from retrievers.config.layers import Layer, build, file_layer, nest
from tests.support.indexing import read_texts, write_pages

ROBOTS = Path(__file__).parent / "pages" / "robots"
PAGES: Mapping[str, str] = read_texts(ROBOTS / "docs")
CASES: Sequence[Mapping[str, Any]] = [json.loads(line) for line in (ROBOTS / "golden.jsonl").read_text().splitlines()]
SETTINGS: Mapping[str, Any] = yaml.safe_load((ROBOTS / "experiment.yaml").read_text())
FORWARD = "Forward kinematics multiplies the transforms of all joints, from the base of the arm to its hand."
TOPIC = "A topic is a named channel; publishers write messages to it and subscribers read them."


class Experiment:
    def __init__(self, folder: Path) -> None:
        self.folder, self.config, self.golden = folder, folder / "experiment.yaml", folder / "golden.jsonl"
        self.docs, self.store = folder / "docs", folder / "store"

    def write_golden(self, cases: Iterable[Mapping[str, Any]]) -> None:
        self.golden.write_text("".join(json.dumps(case) + "\n" for case in cases), encoding="utf-8")

    def write_config(self, settings: Mapping[str, Any]) -> None:
        self.config.write_text(yaml.safe_dump(dict(settings)), encoding="utf-8")

    def write_pages(self, pages: Mapping[str, str]) -> None:
        write_pages(self.docs, pages)


def make_experiment(folder: Path) -> Experiment:
    made = Experiment(folder)
    made.write_pages(PAGES)
    made.write_golden(CASES)
    made.write_config(SETTINGS)
    return made


def settings(made: Experiment, **changes: Any) -> ExperimentConfig:
    flat = {name.replace("__", "."): value for name, value in changes.items()}
    layers = [file_layer(made.config, ExperimentConfig), Layer(label="the test", values=nest(flat))]
    return build(ExperimentConfig, layers)


def index_once(made: Experiment) -> None:
    """Index the pages of an experiment; what this process has indexed alike before is linked.

    An engine sets up 130 MB for a collection of a few pages, which takes longer than all else in a small test.
    """
    config = settings(made)
    key = f"{read_texts(made.docs)} {config.index} {config.retriever.model_dump_json(exclude={'store'})}"
    if key in _stores:
        shutil.copytree(_stores[key], made.store, copy_function=_linked)
        return
    index_if_stale(config, {}, silent)
    folder = Path(tempfile.mkdtemp(prefix="stores-", dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")))
    _stores[key] = shutil.copytree(made.store, folder / "store", copy_function=_linked)


_stores: dict[str, Path] = {}


def remove_stores() -> None:
    """Remove what `index_once` keeps; a worker of xdist ends without what waits for the interpreter's end."""
    while _stores:
        shutil.rmtree(_stores.popitem()[1].parent, ignore_errors=True)


def _linked(source: str, target: str) -> None:
    """Copy a file, a large one as a link: a generation never changes. Small ones may be locked, or touched."""
    if Path(source).stat().st_size < 1 << 16 or Path(source).stat().st_dev != Path(target).parent.stat().st_dev:
        shutil.copy2(source, target)
    else:
        os.link(source, target)


def silent(stage: str, done: int, total: int, detail: str = "") -> None:
    """Ignore progress."""


def joined(report: dict[str, Any]) -> dict[str, Any]:
    """Return a report with the scores and proxies of each query in its row, in place of columns."""
    for kind in ("scores", "proxies"):
        for place, row in enumerate(report["queries"]):
            row[kind] = {name: column[place] for name, column in report[kind].items() if column[place] is not None}
    return report


def load_report(file: Path) -> dict[str, Any]:
    return joined(json.loads(file.read_text(encoding="utf-8")))
