"""A server whose collections are in strict mode, as hosted clusters set it: everything works within its limits."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from retrievers import QdrantRetriever
from retrievers.config import RetrieverConfig
from retrievers.errors import ConfigError, StoreError
from retrievers.records import Chunk
from tests.support.clock import Clock, patient
from tests.support.collections import index_pages, settings, write_pages
from tests.support.qdrant_rules import recorded
from tests.support.qdrant_server import QdrantServer

STRICT = {
    name: value
    for name, value in recorded("info-strict")["answer"]["result"]["config"]["strict_mode_config"].items()
    if name not in ("enabled", "read_rate_limit")
}
TIGHT = {**STRICT, "max_query_limit": 3, "search_max_batchsize": 2, "upsert_max_batchsize": 2, "condition_max_size": 2}
QUERIES = ["who sends messages to listeners", "the glossary words used here", "angular velocity", "a client waits"]


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[tuple[QdrantServer, RetrieverConfig]]:
    with QdrantServer() as server:
        server.rules.strict = TIGHT
        config = settings(store={"url": server.url}, collection="pages", candidates=3, top_k=3, threshold=0)
        index_pages(config, write_pages(tmp_path))
        yield server, config


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock().rules(monkeypatch)


def ranked(retriever: QdrantRetriever) -> list[list[tuple[Chunk, float | None]]]:
    return [[(c.chunk, c.score) for c in one] for one in retriever.candidates(QUERIES)]


def shown(config: RetrieverConfig, **changes: Any) -> Any:
    """Whatever an evaluation asks a retriever for."""
    with QdrantRetriever.open(config.model_copy(update=changes), env={}) as retriever:
        found = ranked(retriever)
        pages = retriever.chunks({"source_url": ["/docs/ros2/topics", "/docs/ros2/services", "/docs/motion/imu"]})
        ids = [chunk.chunk_id for chunk in pages]
        return (
            *(found, pages, retriever.chunks({"chunk_id": ids[:5]}), retriever.chunks()),
            *(retriever.chunks({"point_id": [chunk.point_id for chunk in pages]}), retriever.sample(256)),
            [session.chunks for session in retriever.search_batch(QUERIES)],
        )


def test_the_limits_are_those_of_a_real_server() -> None:
    assert STRICT == {
        "max_query_limit": 100,
        "max_timeout": 2,
        "unindexed_filtering_retrieve": False,
        "upsert_max_batchsize": 64,
        "search_max_batchsize": 16,
    }


@pytest.mark.slow
@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("mode", ["semantic", "keyword", "hybrid"])
def test_strict_mode_changes_no_result(strict: tuple[QdrantServer, RetrieverConfig], mode: str, exact: bool) -> None:
    server, config = strict
    server.rules.strict = TIGHT | {"search_allow_exact": exact}
    within = shown(config, mode=mode)
    server.rules.strict = None
    beyond = shown(config, mode=mode)
    assert repr(within[1:-1]) == repr(beyond[1:-1])
    assert within[0] == beyond[0] and len(within[0][0]) == 3


def test_a_depth_that_is_not_allowed_is_an_error_before_the_run(strict: tuple[QdrantServer, RetrieverConfig]) -> None:
    _, config = strict
    with pytest.raises(StoreError) as caught:
        QdrantRetriever.open(config.model_copy(update={"candidates": 4}), env={})
    assert str(caught.value) == (
        "collection 'pages' is in strict mode and allows at most 3 results a query (max_query_limit), "
        "but candidates is 4; set candidates to 3 or less"
    )


def test_a_filter_by_a_key_with_an_index_is_pushed_down(strict: tuple[QdrantServer, RetrieverConfig]) -> None:
    server, config = strict
    chosen = shown(config, filters="module == 'ros2' and chunk_index > 0 and not tags == 'imu'")[0]
    server.rules.strict = None
    assert chosen == shown(config, filters="module == 'ros2' and chunk_index > 0 and not tags == 'imu'")[0]


def test_a_filter_by_a_key_without_one_names_the_call_that_makes_it(
    strict: tuple[QdrantServer, RetrieverConfig],
) -> None:
    _, config = strict
    with pytest.raises(ConfigError) as caught:
        shown(config, filters="start_line < 30 and content_hash == 'x'")
    said = str(caught.value).splitlines()
    assert said[0].endswith(
        "filters by keys with an index alone; make one: "
        "client.create_payload_index('pages', 'metadata.start_line', 'integer')"
    )
    assert said[1].endswith("client.create_payload_index('pages', 'metadata.content_hash', 'keyword')")


def test_indexing_again_keeps_to_the_limits(strict: tuple[QdrantServer, RetrieverConfig], tmp_path: Path) -> None:
    server, config = strict
    server.requests.clear()
    index_pages(config, write_pages(tmp_path, {"new.md": "# New\n\n" + "## A\n\nfresh text\n\n" * 5}))
    written = [len(r.body["points"]) for r in server.requests if (r.method, r.path[-7:]) == ("PUT", "/points")]
    assert written and max(written) == 2


# The rate limit


def limited(server: QdrantServer, per_minute: int) -> None:
    server.rules.strict = {"read_rate_limit": per_minute}


def test_a_batch_larger_than_the_limiter_holds_is_split(
    strict: tuple[QdrantServer, RetrieverConfig], clock: Clock
) -> None:
    server, config = strict
    server.rules.strict = None
    with QdrantRetriever.open(config, env={}) as retriever, patient(60):
        whole = ranked(retriever)
        limited(server, 3)  # after it was opened: it does not know of the limit
        assert ranked(retriever) == whole


def test_an_application_does_not_wait_as_long_as_that(
    strict: tuple[QdrantServer, RetrieverConfig], clock: Clock
) -> None:
    server, config = strict
    server.rules.strict = None
    with QdrantRetriever.open(config, env={}) as retriever:
        limited(server, 2)
        assert retriever.search(QUERIES[0], use_cache=False).status == "success"
        session = retriever.search(QUERIES[0], use_cache=False)
    assert session.status == "error" and "asked to wait 30 s, more than 5 s" in (session.error or "")


def test_what_the_server_refuses_is_told_in_its_words(strict: tuple[QdrantServer, RetrieverConfig]) -> None:
    server, config = strict
    with QdrantRetriever.open(config, env={}) as retriever:
        server.rules.strict = {**TIGHT, "max_query_limit": 2}
        with pytest.raises(StoreError, match=r'Limit exceeded 3 > 2 for "limit"\. Help: Reduce the "limit" parameter'):
            retriever.candidates(QUERIES[:1])
