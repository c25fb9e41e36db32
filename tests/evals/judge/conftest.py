from collections.abc import Iterator
from pathlib import Path

import pytest

from evals.judge import asking
from tests.support.chat_server import ChatServer
from tests.support.judged import ENTITIES, LABELS, ORACLE, PROTOCOLS
from tests.support.judging import Oracle


@pytest.fixture(params=PROTOCOLS)
def server(request: pytest.FixtureRequest) -> Iterator[ChatServer]:
    kind: type[ChatServer] = request.param
    with kind(Oracle({**LABELS, **ORACLE.labels}, ENTITIES)) as running:
        yield running


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BASE_S", "CAP_S"):
        monkeypatch.setattr(asking, name, 0.0)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "kept" / "verdicts.sqlite"
