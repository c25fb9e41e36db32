"""What every test gets: an environment without keys, proxies or settings of the machine it runs on."""

import gc
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import disk_usage
from tempfile import TemporaryDirectory

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is there: tests run side by side, threads would wait
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else every worker and command compiles everything anew

import certifi
import pytest
from hypothesis import HealthCheck, settings

from evals.config.telemetry import silence
from retrievers.text import shown
from tests.support.clock import Clock
from tests.support.experiment import remove_stores

SETTINGS = ("QDRANT_", "COHERE_", "CO_API_", "RAG_", "MLFLOW_", "LANGSMITH_", "LANGCHAIN_")
MEMORY = Path("/dev/shm")
HANDBOOK = Path(__file__).parents[1] / "datasets" / "physical_ai_handbook"

silence(hub=False)
gc.disable()  # until all is imported, which stays
sys.dont_write_bytecode = False
if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and disk_usage(MEMORY).free > 4_000_000_000:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))  # stores force every change to the disk
settings.register_profile("quick", max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", settings.get_profile("quick"), max_examples=100)
settings.load_profile("quick")  # without a deadline: a busy machine is no fault of the code


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def kept_stores() -> Iterator[None]:
    yield
    remove_stores()


@pytest.fixture(scope="session", autouse=True)
def one_authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Every client of a server reads the authorities of certificates; all there are take it 25 ms."""
    first, end, _ = Path(certifi.where()).read_text(encoding="utf-8").partition("-----END CERTIFICATE-----\n")
    (file := tmp_path_factory.mktemp("authority") / "one.pem").write_text(first + end, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(file))
        yield


@pytest.fixture(scope="session")
def empty_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, empty_home: Path) -> Iterator[None]:
    monkeypatch.setenv("HOME", str(empty_home))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    for name in list(os.environ):
        if name.startswith(SETTINGS) and name not in ("MLFLOW_DISABLE_TELEMETRY",):
            monkeypatch.delenv(name)
    yield


@pytest.fixture(autouse=True)
def fresh_loggers() -> Iterator[None]:
    yield
    for name in ("evals", "retrievers"):
        logger = logging.getLogger(name)
        for handler in logger.handlers:
            handler.close()
        logger.handlers.clear()
        logger.setLevel(logging.NOTSET)
        logger.propagate = True


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock().rules(monkeypatch)


@pytest.fixture(autouse=True)
def no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shown, "_secrets", ())


@pytest.fixture
def on_disk() -> Iterator[Path]:
    """A folder on a disk, for tests of what a kill or a full disk leaves there; others have theirs in memory."""
    with TemporaryDirectory(prefix="retrieval-evals-", dir="/var/tmp") as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def handbook() -> Path:
    return HANDBOOK
