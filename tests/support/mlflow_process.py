"""MLflow's own server in a process of its own, to be killed and started again; and a disk that is soon full."""

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.child import environment
from tests.support.loopback import free_port

SECONDS = 180


class MlflowProcess:
    """A server with its database and artifacts in a folder.

    Attributes:
        artifacts: Folder of the artifacts.
    """

    def __init__(self, folder: Path, artifacts: Path) -> None:
        self.folder, self.artifacts = folder, artifacts
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Its address, the same after every start."""
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it and wait until it answers."""
        command = [
            sys.executable, "-m", "mlflow", "server", "--workers", "1", "--host", "127.0.0.1",
            "--port", str(self._port), "--backend-store-uri", f"sqlite:///{self.folder}/server.db",
            "--artifacts-destination", str(self.artifacts),
        ]  # fmt: skip
        extra = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        quiet = subprocess.DEVNULL
        # a group of its own, so that its worker is killed with it
        self._process = subprocess.Popen(
            command, cwd=self.folder, env=environment(extra), stdout=quiet, stderr=quiet, start_new_session=True
        )
        end = time.monotonic() + SECONDS
        while True:
            try:
                with urllib.request.urlopen(f"{self.url}/health", timeout=5):
                    return
            except OSError:
                assert self._process.poll() is None and time.monotonic() < end, "the server did not start"
                time.sleep(0.25)

    def kill(self) -> None:
        """Kill it at once, if it runs."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(30)
            self._process = None


@contextmanager
def mlflow_process(folder: Path, artifacts: Path | None = None) -> Iterator[MlflowProcess]:
    """Yield a running server."""
    made = MlflowProcess(folder, artifacts or folder / "kept")
    try:
        made.start()
        yield made
    finally:
        made.kill()


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Callable[[int], int]]:
    """Mount a file system at a new folder, as root may; yield what resizes it. Skip the test without the right."""
    folder.mkdir()
    if _run("mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)):
        pytest.skip("file systems cannot be mounted here")
    try:
        yield lambda more: _run("mount", "-o", f"remount,size={more}m", str(folder))
    finally:
        _run("umount", str(folder))


def _run(*command: str) -> int:
    try:
        return subprocess.run(command, capture_output=True, check=False, timeout=30).returncode
    except FileNotFoundError:
        return 1
