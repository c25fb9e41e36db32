"""A browser for the pages, where there is one."""

from collections.abc import Iterator

import pytest

from tests.support.chromium import Chromium, chromium, find_chromium


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    found = find_chromium()
    if found is None:
        pytest.skip("needs a browser: chromium, chromium-browser or google-chrome on the PATH")
    with chromium(found, tmp_path_factory.mktemp("profile")) as opened:
        yield opened
