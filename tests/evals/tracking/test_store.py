from pathlib import Path

import pytest

from evals.tracking.store import check_folder, local_uri
from retrievers.errors import ConfigError


@pytest.mark.parametrize("name", ["mlruns", "mlruns/deeper"])
def test_a_folder_that_cannot_be_made(tmp_path: Path, name: str) -> None:
    (tmp_path / "mlruns").touch()
    for check in (check_folder, local_uri):
        with pytest.raises(ConfigError, match=r"cannot be written \(Not a directory\).*--tracking\.enabled false"):
            check(tmp_path / name)
