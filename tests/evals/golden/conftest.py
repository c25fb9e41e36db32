from collections.abc import Callable

import pytest

from evals.golden.command import main
from tests.support.command import Done, call


@pytest.fixture
def golden(capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    return lambda *arguments: call(main, arguments, capsys)
