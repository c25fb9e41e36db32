import logging
from pathlib import Path

import pytest

from retrievers.config.dotenv_file import read_dotenv
from retrievers.errors import ConfigError


def written(folder: Path, text: str) -> Path:
    file = folder / ".env"
    file.write_text(text, encoding="utf-8")
    return file


def test_variables_are_read_as_dotenv_has_them(tmp_path: Path) -> None:
    file = written(tmp_path, "# a comment\nexport A=1\nB='two words'\nC=${A}-${NONE_OF_THAT:-3}\nD\nA=1\n")
    assert read_dotenv(file) == {"A": "1", "B": "two words", "C": "1-3"}


def test_no_file_and_a_folder_of_that_name_give_none(tmp_path: Path) -> None:
    assert read_dotenv(tmp_path / ".env") == read_dotenv(tmp_path) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A=sesame1\n\nA=sesame2", ":3: 'A' has another value than at line 1; leave one of them out"),
        ("A0=sesame\n" + "".join(f"A{n}=${{A{n - 1}}}${{A{n - 1}}}\n" for n in range(1, 40)), ":14: 'A13' would have"),
        ("\nA='sesame" + "${" * 9_000 + "'", ":2: 'A' holds more than 100 times ${; write the value out"),
        ("A=" + "x" * 60_000, ": expected a .env file of NAME=value lines of at most 20,000 bytes, found 60,002"),
    ],
)
def test_what_is_ambiguous_or_without_bounds_is_refused_and_no_value_shown(
    text: str, message: str, tmp_path: Path
) -> None:
    file = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        read_dotenv(file)
    assert str(caught.value).startswith(f"{file}{message}")
    assert "sesame" not in str(caught.value)


def test_a_line_that_is_no_variable_is_left_out_with_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("retrievers"), "propagate", True)  # a command before may have set it up
    file = written(tmp_path, "A=1\n\n=what\nB='open\nC=3\n")
    assert read_dotenv(file) == {"A": "1", "C": "3"}
    assert [record.getMessage() for record in caplog.records] == [
        f"{file}:{line}: expected NAME=value; the line is left out" for line in (3, 4)
    ]
