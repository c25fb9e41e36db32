"""A run against its baseline, and the baseline that is committed; what goes wrong after measuring loses nothing."""

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import yaml
from langchain_qdrant import QdrantVectorStore
from qdrant_client import QdrantClient, models

from evals import Evaluation, compare_runs, evaluate
from evals.config.judge import JudgeConfig
from evals.errors import ReportError
from evals.experiment import facts
from evals.judge.chat import make_chat
from evals.report.head import criteria_line
from evals.report.html.render import badge
from evals.report.model import JudgeFacts
from evals.run import main
from retrievers.config import RetrieverConfig
from retrievers.errors import ConfigError
from retrievers.retriever.opened import adopt_given
from tests.support import distances
from tests.support.collections import index_pages
from tests.support.collections import settings as retriever_settings
from tests.support.experiment import CASES, Experiment, load_report, make_experiment, settings
from tests.support.indexing import write_pages
from tests.support.loopback import Reply, Request
from tests.support.qdrant_server import KEY, QdrantServer, Rules

METRICS = ("ranking/*", "scope/*")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    experiment = make_experiment(tmp_path_factory.mktemp("baseline"))
    experiment.write_golden([{**case, "id": f"{case['id']}-{n}"} for n in range(10) for case in CASES])
    return experiment


@pytest.fixture(scope="module")
def whole(made: Experiment) -> Evaluation:
    found: Evaluation = evaluate(experiment=settings(made, metrics=METRICS))
    return found


@pytest.fixture(scope="module")
def baseline(made: Experiment, whole: Evaluation) -> Path:
    return whole.save(made.folder / "baseline.json")


def test_against_itself_every_headline_metric_is_no_worse(made: Experiment, baseline: Path) -> None:
    report = evaluate(experiment=settings(made, metrics=METRICS, baseline=str(baseline))).report
    compared = [one for one in report.criteria if one.condition == "no worse"]
    assert len(compared) > 5 and all(one.passed for one in compared) and report.passed
    assert report.baseline is not None and report.baseline.about.startswith("baseline.json: ")
    assert not [note for note in report.notes if "baseline" in note]
    assert criteria_line(report) == f"Not proved worse than the baseline in {len(compared)} metrics."
    assert badge(report) == "not proved worse than the baseline"
    part = evaluate(experiment=settings(made, metrics=METRICS, baseline=str(baseline), dataset__limit=12)).report
    assert part.baseline is not None
    assert {one.wins + one.ties + one.losses for one in part.baseline.differences} <= {0, 4, 8, 12}


def test_a_metric_that_is_proved_worse_alone_fails(made: Experiment, baseline: Path, command: Any) -> None:
    flags = ["--config", made.config, "--metrics", ",".join(METRICS), "--baseline", baseline]
    done = command(main, *flags, "--retriever.threshold", "0.9")
    assert done.code == 1
    assert "  FAIL ranking/hit_rate_at_3 0.000 (proved worse than 0.750 of the" in done.out
    assert "scope/false_answer" in done.out and "FAIL scope/false_answer" not in done.out
    assert command(main, *flags, "--retriever.threshold", "0.9", "--no-gate").code == 0
    assert command(main, *flags).code == 0


def test_results_of_two_top_k_compare_at_the_larger_one(made: Experiment, whole: Evaluation, baseline: Path) -> None:
    deep = [name for name in whole.report.scores if name.startswith("ranking/") and name.endswith("_at_3")]
    gated = set(deep) - {"ranking/precision_at_3"}
    less = settings(made, metrics=METRICS, retriever__top_k=1, baseline=str(baseline))
    named = evaluate(experiment=settings(made, metrics=(*METRICS, *deep), retriever__top_k=1)).report
    report = evaluate(experiment=less).report
    figures = {one.metric: (one.figure, one.passed) for one in report.criteria}
    assert gated <= figures.keys() - report.metrics.keys() and len(gated) >= 6
    # As ranking metrics that are asked for by name.
    expected = {name: pytest.approx(named.metrics[name].value) for name in gated}
    assert {name: figures[name][0] for name in gated} == expected
    assert figures["ranking/recall_at_1"][1] and not figures["ranking/recall_at_3"][1] and not report.passed
    fewer = evaluate(experiment=less.model_copy(update={"baseline": None})).save(made.folder / "fewer.json")
    more = evaluate(experiment=settings(made, metrics=METRICS, baseline=str(fewer))).report
    assert more.baseline is not None and more.passed
    assert {one.metric: one.verdict for one in more.baseline.differences}["ranking/recall_at_3"] == "better"


def test_a_top_k_that_is_no_depth_of_a_metric_is_compared_at_too(made: Experiment, whole: Evaluation) -> None:
    wide = evaluate(experiment=settings(made, metrics=METRICS, retriever__top_k=4))
    file = wide.save(made.folder / "wide.json")
    report = evaluate(experiment=settings(made, metrics=METRICS, retriever__top_k=3, baseline=str(file))).report
    assert report.baseline is not None
    recall = {one.metric: one for one in report.baseline.differences}["ranking/recall_at_4"]
    rows = [row for row in wide.report.queries if row.relevant]
    by_hand = [len(row.relevant.keys() & {hit.chunk_id for hit in row.retrieved}) / len(row.relevant) for row in rows]
    assert recall.baseline == pytest.approx(np.mean(by_hand))
    assert recall.other == pytest.approx(report.metrics["ranking/recall_at_3"].value)
    assert "ranking/recall_at_4" in {one.metric for one in report.criteria}
    [between] = compare_runs(wide, whole)
    assert {"ranking/recall_at_4", "ranking/ndcg_at_4"} <= {one.metric for one in between.differences}


def test_what_else_differs_and_what_is_not_compared_is_noted(made: Experiment, baseline: Path, tmp_path: Path) -> None:
    told = json.loads(baseline.read_text())
    told["facts"]["collection"] |= {"points": 9, "fingerprint": "another"}
    told["metrics"].pop("scope/false_answer"), told["scores"].pop("scope/false_answer")
    other = tmp_path / "other.json"
    other.write_text(json.dumps(told))
    changes = {"metrics": ("ranking/hit_rate_at_3", "scope/false_answer"), "baseline": str(other)}
    notes = "\n".join(evaluate(experiment=settings(made, **changes)).report.notes)
    assert re.search(r"not as in the baseline: collection: robots, 9 points, another → robots, \d points, ", notes)
    assert "not compared with the baseline: scope/false_answer (not measured in the baseline)" in notes
    assert re.search(r"not compared with the baseline: .*ranking/ndcg_at_3.* \(not measured in this run\)", notes)
    fewer = evaluate(experiment=settings(made, dataset__limit=2, baseline=str(baseline)))
    assert "58 of the 60 queries of the baseline are not in this run" in fewer.report.notes


def test_a_baseline_of_other_data_is_refused_before_any_work(made: Experiment, baseline: Path, tmp_path: Path) -> None:
    other, store = tmp_path / "other.jsonl", tmp_path / "never"
    other.write_text(json.dumps({**CASES[0], "query": "another query"}) + "\n")
    changes = {"dataset__path": str(other), "baseline": str(baseline), "retriever__store__path": str(store)}
    with pytest.raises(ReportError, match=r"expected a report of the golden data of this run[\s\S]*") as refused:
        evaluate(experiment=settings(made, **changes))
    assert "lacks 1 of the 1 queries as they are now" in str(refused.value)
    assert "make it again from this data" in str(refused.value) and not store.exists()


@pytest.mark.parametrize(
    ("fails", "fault", "code"),
    [
        ("evals.report.html.render_page", KeyboardInterrupt, 130),
        ("evals.report.html.render_page", RuntimeError("no template"), 3),
        ("evals.experiment.outputs.write", ConfigError("File too large"), 2),
    ],
)
def test_what_goes_wrong_after_measuring_loses_no_figure(
    made: Experiment, here: Path, fails: str, fault: Any, code: int, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fails, Mock(side_effect=fault))
    file, page = here / "report.json", here / "page.html"
    done = command(main, "--config", made.config, "--output", file, "--html", page)
    assert done.code == code and not page.exists() and "ranking/hit_rate_at_3" in done.out
    if code == 2:
        assert "File too large" in done.err
    else:
        assert load_report(file)["metrics"]["ranking/hit_rate_at_3"]["value"] == 0.75 and str(file) in done.out


# What a run can be compared by: golden data, judge, versions, commit, and the collection, before and after it


class Changing(QdrantServer):
    def __init__(self) -> None:
        super().__init__()
        self.queries = self.at = 0
        self.change: Callable[[], object] = dict

    def answer(self, request: Request) -> Reply:
        reply = super().answer(request)
        if "/points/query" in request.path:
            self.queries += 1
            if self.queries == self.at:
                self.change()
        return reply

    def when(self, query: int, change: Callable[[], object]) -> None:
        self.queries, self.at, self.change = 0, query, change

    def ids(self) -> list[Any]:
        return [point.id for point in self.client.scroll("robots", limit=1000)[0]]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return make_experiment(tmp_path_factory.mktemp("changing"))


@pytest.fixture
def server(world: Experiment, here: Path) -> Iterator[Changing]:
    with Changing() as server:
        index_pages(retriever_settings(store={"url": server.url}, collection="robots"), world.docs)
        yield server


def run(world: Experiment, server: QdrantServer, *arguments: str) -> tuple[int, dict[str, Any]]:
    config = yaml.safe_load(world.config.read_text())
    config["retriever"]["store"] = {"url": server.url}
    config["criteria"] = {"ranking/hit_rate_at_3": ">= 0.5"}
    file = world.folder / "on_a_server.yaml"
    file.write_text(yaml.safe_dump(config))
    code = main(["--config", str(file), "--output", "report.json", "--junit", "junit.xml", *arguments])
    return code, json.loads(Path("report.json").read_text())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda qdrant: qdrant.client.delete("robots", qdrant.ids()[:2]), "points 5 → 3, content of 5 sampled points"),
        (lambda qdrant: qdrant.client.set_payload("robots", {"page_content": ""}, qdrant.ids()[:1]), "content of 5 "),
        (lambda qdrant: qdrant.aliases.update(live="other"), "points 5 → 1, content of 5 sampled points"),
    ],
    ids=["deleted points", "another text", "another collection of the alias"],
)
def test_a_change_in_mid_run_leaves_every_criterion_undecided(
    world: Experiment, server: Changing, capsys: pytest.CaptureFixture[str], change: Callable[[Any], object], said: str
) -> None:
    other = write_pages(world.docs.parent / "other", {"a.md": "# Other\n\nAnother page.\n"})
    index_pages(retriever_settings(store={"url": server.url}, collection="other"), other)
    server.aliases["live"] = "robots"
    server.when(2, lambda: change(server))
    code, report = run(world, server, "--retriever.collection", "live")
    assert code == 3 and report["facts"]["collection_changed"].startswith(said)
    assert report["facts"]["collection"]["name"] == "live"
    assert not report["passed"] and report["criteria"]
    assert all("the collection changed between" in criterion["reason"] for criterion in report["criteria"])
    assert f"incomplete: the collection changed during the run: {said}" in capsys.readouterr().err
    assert 'type="undecided"' in Path("junit.xml").read_text()


def test_a_collection_that_is_gone_does_not_lose_the_run(world: Experiment, server: Changing) -> None:
    run(world, server)
    baseline = Path("report.json").rename("baseline.json")
    server.when(server.queries, lambda: setattr(server, "rules", Rules(api_key=KEY)))
    code, report = run(world, server, "--baseline", str(baseline))
    assert code == 3 and "cannot be read any more (" in report["facts"]["collection_changed"]
    compared = [one for one in report["criteria"] if one["condition"] == "no worse"]
    assert len(compared) > 5 and all(one["undecided"] and not one["passed"] for one in compared)


def test_a_collection_made_elsewhere_is_known_by_texts_and_vectors_of_its_first_points(server: Changing) -> None:
    vectors = np.random.default_rng(0).normal(size=(600, 5))

    def write(numbers: range, sign: float) -> None:
        texts = [{"page_content": f"{number}"} for number in numbers]
        points = models.Batch(ids=[*numbers], vectors=(sign * vectors[numbers]).tolist(), payloads=texts)
        server.client.upsert("big", points)

    server.client.create_collection("big", models.VectorParams(size=5, distance=models.Distance.COSINE))
    write(range(600), 1)
    client = QdrantClient(server.url, check_compatibility=False)
    store = QdrantVectorStore(client, "big", distances.EMBEDDINGS, validate_collection_config=False)
    retriever, _ = adopt_given(store, RetrieverConfig(trust_embedding=True), None, {})
    first = facts.collection_facts(retriever)
    assert facts.collection_facts(retriever) == first
    write(range(200, 600), -1)
    changed = facts.collection_facts(retriever)
    assert first and changed and facts.differences(first, changed) == "content of 256 sampled points"


def test_a_judge_is_known_by_all_that_its_verdicts_depend_on() -> None:
    def judge(**changes: Any) -> JudgeFacts:
        named = {"model": "openai:local", "base_url": "http://localhost:1/v1", **changes}
        return facts.judge_facts(make_chat(JudgeConfig.model_validate(named), {"OPENAI_API_KEY": "sk-SECRET"}))

    found = judge()
    assert (found.provider, found.model) == ("openai", "local")
    assert (found.parameters["temperature"], found.parameters["base_url"]) == (0.0, "http://localhost:1/v1")
    assert judge() == found and judge(max_concurrency=2, timeout_s=9) == found
    changes = ("temperature", 0.5), ("model", "openai:other"), ("max_output_tokens", 100), ("base_url", "http://h:2/v1")
    assert len({found.fingerprint, *(judge(**{name: value}).fingerprint for name, value in changes)}) == 5
    assert "SECRET" not in str(found)


def git(*arguments: str) -> str:
    command = ["git", "-c", "user.name=n", "-c", "user.email=e@x", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_the_commit_of_the_working_directory(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(here.parent))
    assert facts.code_commit() == "unknown"
    git("init", "-q")
    assert facts.code_commit() == "unknown"
    (here / "file").write_text("one")
    git("add", "file")
    git("commit", "-qm", "first")
    commit = git("rev-parse", "HEAD")
    assert facts.code_commit() == commit
    (here / "file").write_text("two")
    assert facts.code_commit() == f"{commit}-dirty"
