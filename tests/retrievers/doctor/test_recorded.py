"""Audits of collections as a real Qdrant 1.18.3 described them."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from retrievers.__main__ import main
from tests.support.command import call
from tests.support.recorded_server import RecordedServer

TEXT = "The arm has six joints, and each joint has an encoder of its own."
POINT = {"id": 1, "payload": {"page_content": TEXT, "metadata": {}}, "vector": {"": [1.0, *[0.0] * 255]}}
# Findings that the made point, or a model asked for its text, gives in every case.
OF_THE_POINT = {"vectors/embedded_again", "payload/address", "vectors/usable"}


def audit(capsys: pytest.CaptureFixture[str], server: RecordedServer, *flags: str) -> tuple[int, dict[str, str]]:
    """Return the exit code, and severity with observation by check."""
    with server:
        done = call(main, ["doctor", "--store.url", server.url, "--collection", "handbook", "--json", *flags], capsys)
    assert done.err == ""
    reading = ("/scroll", "/count", "/query")
    assert all(
        request.method == "GET" or request.path.endswith(reading) or "ids" in request.body
        for request in server.requests
    )
    findings = json.loads(done.out)["findings"]
    assert all(finding["why"] for finding in findings)
    return done.code, {finding["check"]: f"{finding['severity']}: {finding['seen']}" for finding in findings}


@pytest.mark.parametrize(
    ("server", "flags", "check", "seen"),
    [
        ({"info": "info-quantized-unindexed", "changed": {"points_count": 4_000_000, "indexed_vectors_count": 0}}, [],
         "index/indexed", "warning: 15,625 KB of vectors, and indexing is off (indexing_threshold is 0)"),
        ({"info": "info-big", "changed": {"indexed_vectors_count": 50_613}}, [],
         "index/indexed", "error: the index holds 0% of the dense vectors (50,613 KB of vectors in 2 segments"),
        ({"info": "info-big", "changed": {"config": {"hnsw_config": {"m": 0}}}}, [],
         "index/indexed", "warning: 50,613 KB of vectors, and HNSW is off"),
        ({"info": "info-big", "changed": {"status": "yellow"}}, [], "index/status", "warning: status yellow"),
        ({"info": "info-big", "changed": {"status": "grey"}}, [], "index/status", "warning: status grey"),
        ({"info": "info-big", "changed": {"status": "red", "optimizer_status": {"error": "no space left"}}}, [],
         "index/status", "error: status red; the optimizer failed: no space left"),
        ({"info": "info-q_bq"}, [], "index/quantization", "note: vectors have binary quantisation, rescored"),
        ({"info": "info-quantized-unindexed", "changed": {"points_count": 9}}, [],
         "index/quantization", "warning: vectors have scalar quantisation"),
        ({"info": "info-q_named"}, [], "vectors/name", "error: there is no dense vector ''; the collection has"),
        ({"info": "info-multivector", "changed": {"points_count": 9}}, ["--vector-name", "colbert"],
         "vectors/single", "error: vector 'colbert' is a multi-vector"),
        ({"info": "info-q_dot"}, ["--threshold", "0.4"],
         "vectors/threshold", "error: collection 'handbook' has the distance dot, where scores have no bounds, and "
         "threshold 0.4 is one on cosine similarity"),
        ({"info": "info-handbook"}, ["--embedding.provider", "cohere"],
         "vectors/model", "error: the collection was embedded by wordllama:l2_supercat_256"),
        ({"info": "info-q_bq"}, ["--mode", "keyword"], "keyword/present", "error: mode keyword searches sparse vector"),
        ({"info": "info-sparse-without-idf", "changed": {"points_count": 9}}, [],
         "keyword/idf", "error: sparse vector 'bm25' has no IDF modifier"),
        ({"info": "info-sharded"}, ["--mode", "hybrid"],
         "keyword/shards", "warning: the collection is cut into 4 shards"),
        ({"info": "info-sharded"}, [], "keyword/shards", "note: the collection is cut into 4 shards"),
        ({"info": "info-q_bq"}, ["--filters", "module = robotics"],
         "payload/index", "warning: no payload index on metadata.module, which a filter"),
        ({"info": "info-strict"}, ["--group-by", "end_line"],
         "payload/index", "error: no payload index on metadata.end_line"),
        ({"info": "info-sharded", "cluster": "cluster-3-peers-one-down"}, [],
         "server/peers", "error: peer http://127.0.0.1:8345/ does not answer (49 messages failed)"),
        ({"info": "info-strict"}, ["--candidates", "200"],
         "server/query_limit", "error: strict mode allows 100 results a query"),
        ({"info": "info-by-alias", "aliases": "aliases"}, ["--collection", "prod"],
         "server/alias", "note: 'prod' is an alias of collection 'my_documents'"),
        ({"info": "info-handbook", "cluster": "auth-scoped-other"}, [],
         "server/rights", "note: not asked: peers of the cluster"),
        ({"info": "info-sparse-without-idf"}, [], "points/none", "error: collection 'handbook' holds no point"),
    ],
)  # fmt: skip
def test_a_fault_is_found(
    server: dict[str, Any], flags: list[str], check: str, seen: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, findings = audit(capsys, RecordedServer(points=[POINT], **server), *flags)
    assert findings[check].startswith(seen)
    assert code == any(finding.startswith("error") for finding in findings.values())


@pytest.mark.parametrize("info", ["info-big", "info-handbook"])
def test_a_sound_collection_has_no_finding(info: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, findings = audit(capsys, RecordedServer(info=info, points=[POINT]))
    assert findings.keys() <= OF_THE_POINT


def test_a_replica_that_is_down_is_no_loss_while_another_is_active(capsys: pytest.CaptureFixture[str]) -> None:
    shards: Mapping[str, Any] = {"info": "info-sharded", "shards": "shards-replicated-one-down"}
    _, findings = audit(capsys, RecordedServer(points=[POINT], **shards))
    assert "server/replicas" not in findings
