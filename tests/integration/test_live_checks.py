"""The checks that a real server is put to before a release pass on the doubles: else one of the two is wrong."""

import os
import subprocess
import sys

import pytest

from tests.support.qdrant_server import QdrantServer


@pytest.mark.slow
@pytest.mark.integration
def test_the_doubles_do_what_a_real_server_is_asked_for() -> None:
    with QdrantServer() as server:
        command = [sys.executable, "-m", "pytest", "-q", "tests/live", "-m", "not slow", "-p", "no:cacheprovider"]
        env = {**os.environ, "QDRANT_TEST_URL": server.url}
        done = subprocess.run(command, check=False, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and "skipped" not in done.stdout, done.stdout[-3_000:]
