"""The experiment for real Cohere, as it is, against a server on the loopback that embeds, reranks and judges."""

import json
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from evals.config.files import PRESETS
from evals.run import load_config, main, parser
from tests.support.chat_server import MODEL, CohereChatServer
from tests.support.command import call
from tests.support.experiment import index, load_report
from tests.support.judged_experiment import calls_of, known_of, labelled_precision, labelled_recall
from tests.support.judging import Oracle, average_precision

pytestmark = [pytest.mark.integration, pytest.mark.slow]
QUICK = ("--ids", "m0-003,m2-010,m2-019,m3-004,m3-007,o-001", "--latency.repeats", "1", "--latency.concurrency", "1")
PRECISION, RECALL = "ragas/llm_context_precision", "ragas/llm_context_recall"


def flags_of(server: CohereChatServer, folder: Path) -> list[str]:
    """The experiment, with the addresses of the server and folders of its own."""
    places = ("retriever.embedding", "retriever.cross-encoder", "judge")
    store = ["--retriever.store.path", folder / "store", "--judge.cache-path", folder / "verdicts.sqlite"]
    files = ["--config", PRESETS / "cohere.yaml", "--output", folder / "report.json"]
    return [*map(str, [*files, *store]), *(f"--{place}.base-url={server.url}" for place in places), *QUICK, "--no-gate"]


def check(report: Mapping[str, Any], oracle: Oracle, texts: Mapping[str, str]) -> None:
    """The report holds what the oracle says, exactly."""
    inside = [row for row in report["queries"] if row["in_scope"]]
    assert len(inside) == 5
    verdicts = [[oracle.verdict(row["query"], texts[hit["chunk_id"]]) for hit in row["retrieved"]] for row in inside]
    precision = [average_precision(of_row) for of_row in verdicts]
    recall = [labelled_recall(row, oracle, texts) if row["retrieved"] else 0.0 for row in inside]
    for metric, values in ((PRECISION, precision), (RECALL, recall)):
        assert [row["scores"][metric] for row in inside] == pytest.approx(values, abs=1e-9)
        summary = report["metrics"][metric]
        assert (summary["n"], summary["n_failed"], summary["n_unscored"]) == (len(inside), 0, 0)
        assert summary["value"] == pytest.approx(fmean(values), abs=1e-9)
        assert len(set(values)) > 1
    assert [labelled_precision(row) for row in inside] == pytest.approx(precision, abs=1e-9)
    assert report["metrics"]["judge/agreement"]["value"] == 1.0


def test_the_experiment_for_cohere_is_worth_what_its_labels_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with CohereChatServer(Oracle({})) as server:
        env, flags = {"COHERE_API_KEY": server.key}, flags_of(server, tmp_path)
        monkeypatch.setenv("COHERE_API_KEY", server.key)
        config = load_config(parser().parse_args(flags), env)
        index(config, env)
        _, chunks, server.oracle = known_of(config, env)
        texts = {chunk.chunk_id: chunk.text for chunk in chunks}
        server.requests.clear()
        done = call(main, flags, capsys)
        assert (done.code, done.err) == (0, "")
        report = load_report(tmp_path / "report.json")
        check(report, server.oracle, texts)
        assert {request.path for request in server.requests} == {"/v1/embed", "/v2/rerank", "/v2/chat"}
        usage = report["judge"]["usage"]
        assert len(server.chats) == usage["calls"] == calls_of(report["queries"])
        assert {(chat.model, chat.temperature, chat.seed) for chat in server.chats} == {(MODEL, 0, 0)}
        assert all(chat.response_format for chat in server.chats)
        assert usage["usd"] == pytest.approx((usage["tokens_in"] * 2.5 + usage["tokens_out"] * 10) / 1e6)
        assert report["facts"]["judge"]["model"] == MODEL
        assert server.key not in json.dumps(report) + done.out
        server.requests.clear()
        assert call(main, [*flags, "--tracking.enabled", "false"], capsys).code == 0
        again = load_report(tmp_path / "report.json")
        check(again, server.oracle, texts)
        assert server.chats == [] and again["judge"]["usage"] | {"hits": 0} == {
            **dict.fromkeys(usage, 0), "usd": 0.0, "stopped": "",
        }  # fmt: skip
