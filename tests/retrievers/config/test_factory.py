import sys
from pathlib import Path

import pytest

from retrievers.config.factory import build, find
from retrievers.errors import ConfigError

HERE = "tests.support.foreign"


def test_a_factory_is_found_and_called() -> None:
    assert build(f"{HERE}:nothing", "python") is None
    assert find(f"{HERE}:nothing", "python").__name__ == "nothing"


def test_a_file_of_the_current_folder_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    Path("of_the_current_folder.py").write_text("def make():\n    return 'made'\n")
    assert build("of_the_current_folder:make", "python") == "made"


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (
            "no_such_module:make",
            "ModuleNotFoundError, No module named 'no_such_module'; neither in the current folder (",
        ),
        ("no.such.module:make", "ModuleNotFoundError, No module named 'no'; neither in the current folder ("),
        (f"{HERE}:plane", f"AttributeError, module '{HERE}' has no 'plane'; did you mean 'plain'"),
        (f"{HERE}:fail", "RuntimeError, no index at"),
        (f"{HERE}:leave", "SystemExit, 0"),
    ],
)
def test_what_cannot_be_loaded_is_said_with_its_cause(target: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build(target, "python")
    assert str(caught.value).startswith(f"python {target!r} cannot be loaded: {said}")
    assert "\n" not in str(caught.value)


def test_what_cannot_be_called_is_no_factory() -> None:
    with pytest.raises(ConfigError, match="expected a function or class to call, got int"):
        build(f"{HERE}:not_a_factory", "python")


def test_a_module_that_lacks_one_of_its_own_imports_is_not_said_to_be_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "lacks_an_import.py").write_text("import no_such_library\n")
    with pytest.raises(ConfigError) as caught:
        find("lacks_an_import:make", "python")
    assert str(caught.value).endswith("ModuleNotFoundError, No module named 'no_such_library'")
