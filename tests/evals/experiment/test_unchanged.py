"""A collection on a server that changes under a run: named, nothing decided, exit code 3."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from evals.run import main
from tests.support.collections import index_pages, settings, write_pages
from tests.support.experiment import Experiment, make_experiment
from tests.support.loopback import Reply, Request
from tests.support.qdrant_rules import Rules
from tests.support.qdrant_server import KEY, QdrantServer


class Changing(QdrantServer):
    """Does something when it has answered the n-th query or batch of them."""

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
def made(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return make_experiment(tmp_path_factory.mktemp("changing"))


@pytest.fixture
def server(made: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Changing]:
    monkeypatch.chdir(tmp_path)
    with Changing() as server:
        index_pages(settings(store={"url": server.url}, collection="robots"), made.docs)
        yield server


def run(made: Experiment, server: QdrantServer, *arguments: str) -> tuple[int, dict[str, Any]]:
    config = yaml.safe_load(made.config.read_text())
    config["retriever"]["store"] = {"url": server.url}
    config["criteria"] = {"ranking/hit_rate_at_3": ">= 0.5"}
    file = made.folder / "on_a_server.yaml"
    file.write_text(yaml.safe_dump(config))
    code = main(["--config", str(file), "--output", "report.json", "--junit", "junit.xml", *arguments])
    return code, json.loads(Path("report.json").read_text())


def test_points_that_are_deleted_in_mid_run_leave_every_criterion_undecided(
    made: Experiment, server: Changing, capsys: pytest.CaptureFixture[str]
) -> None:
    server.when(2, lambda: server.client.delete("robots", server.ids()[:2]))
    code, report = run(made, server)
    assert code == 3
    assert report["facts"]["collection_changed"].startswith("points 5 → 3, content of the first 5 points")
    assert not report["passed"] and report["criteria"]
    assert all("the collection changed between" in criterion["reason"] for criterion in report["criteria"])
    out, err = capsys.readouterr()
    assert "incomplete: the collection changed during the run: points 5 → 3" in err
    assert "the collection changed between" in " ".join(out.split())
    assert 'type="undecided"' in Path("junit.xml").read_text()


def test_an_alias_that_comes_to_stand_for_another_collection_is_named(made: Experiment, server: Changing) -> None:
    other = write_pages(made.docs.parent / "other", {"a.md": "# Other\n\nAnother page.\n"})
    index_pages(settings(store={"url": server.url}, collection="other"), other)
    server.aliases["live"] = "robots"
    server.when(1, lambda: server.aliases.update(live="other"))
    code, report = run(made, server, "--retriever.collection", "live")
    assert code == 3 and "points 5 → 1, " in report["facts"]["collection_changed"]
    assert report["facts"]["collection"]["name"] == "live"


def test_a_collection_that_is_gone_does_not_lose_the_run(made: Experiment, server: Changing) -> None:
    run(made, server)
    server.when(server.queries, lambda: setattr(server, "rules", Rules(api_key=KEY)))
    code, report = run(made, server)
    assert code == 3
    assert "cannot be read any more (" in report["facts"]["collection_changed"]
