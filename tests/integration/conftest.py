from pathlib import Path

import pytest
from filelock import FileLock

from tests.support.child import Finished, default_run


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Finished:
    """The default experiment, run once for all workers, by a user who has set nothing."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "default"
    with FileLock(folder.with_suffix(".lock")):
        return _stored(folder) or _run(folder)


def _run(folder: Path) -> Finished:
    folder.mkdir()
    done = default_run(folder, ["-m", "evals.run"])
    for name, text in (("code", str(done.code)), ("out", done.out), ("err", done.err)):
        folder.with_suffix(f".{name}").write_text(text)
    return done


def _stored(folder: Path) -> Finished | None:
    files = [folder.with_suffix(f".{name}") for name in ("code", "out", "err")]
    if not files[-1].exists():
        return None
    code, out, err = (file.read_text() for file in files)
    return Finished(folder, int(code), out, err)
