from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.support import recorder
from tests.support.child import Finished, default_run
from tests.support.shared import shared_folder


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Finished:
    """The default experiment, run once for all workers, by a user who has set nothing."""
    return _once(tmp_path_factory, worker_id, "default", ["-m", "evals.run"])


@pytest.fixture(scope="session")
def watched(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Finished:
    """The same among keys and addresses, with what it connected to and started in `watched.events`."""
    with shared_folder(tmp_path_factory, worker_id, "events") as events:
        runner = ["-P", recorder.__file__, events / "events.json"]
    return _once(tmp_path_factory, worker_id, "watched", runner, recorder.ENVIRONMENT)


def _once(
    factory: pytest.TempPathFactory,
    worker_id: str,
    name: str,
    runner: Sequence[str | object],
    env: Mapping[str, str] | None = None,
) -> Finished:
    with shared_folder(factory, worker_id, name) as folder:
        files = [folder.with_suffix(f".{what}") for what in ("code", "out", "err")]
        if not files[-1].exists():
            done = default_run(folder, runner, env)
            for file, text in zip(files, (str(done.code), done.out, done.err), strict=True):
                file.write_text(text)
        code, out, err = (file.read_text() for file in files)
        return Finished(folder, int(code), out, err)


@pytest.fixture(scope="session")
def events_file(tmp_path_factory: pytest.TempPathFactory, worker_id: str, watched: Finished) -> Path:
    with shared_folder(tmp_path_factory, worker_id, "events") as events:
        return events / "events.json"
