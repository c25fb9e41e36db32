from pathlib import Path

import pytest

from retrievers.config import RetrieverConfig
from retrievers.config.layers import build, file_layer
from retrievers.errors import ConfigError


def yaml(folder: Path, text: str) -> Path:
    file = folder / "retriever.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def fault_of(file: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        build(RetrieverConfig, [file_layer(file, RetrieverConfig)])
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", ":1: not valid YAML: while parsing a flow"),
        ("", ": expected a mapping of settings, and the file is empty"),
        ("- a", ": expected a mapping of settings, got ['a']"),
        ("just words", ": expected a mapping of settings, got 'just words'"),
        ("store: x\nstore.path: y", ":2: store is given a value and store.path as well; expected one of them"),
        ("store.path: x\nstore:\n  path: y", ":3: store.path is given twice, nested and dotted; leave one of them out"),
        ("!!python/object/apply:os.getcwd []", ":1: not valid YAML: could not determine a constructor"),
        ("a: 1\ntop_k: 3\ntop_k: 4", ":3: not valid YAML: 'top_k' is given twice, first at line 2"),
        ("store:\n  url: a\n  url: a", ":3: not valid YAML: 'url' is given twice, first at line 2"),
        ("\ncollection: 2024-02-30", ": not valid YAML: day is out of range for month"),
    ],
)
def test_a_file_that_cannot_be_settings_is_named_with_its_line(text: str, message: str, tmp_path: Path) -> None:
    file = yaml(tmp_path, text)
    fault = fault_of(file)
    assert fault.startswith(f"{file}{message}")
    assert "\n" not in fault and len(fault) < 1_000


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    expected = "expected a YAML file of settings"
    missing = tmp_path / "none.yaml"
    assert fault_of(missing) == f"{missing}: cannot be read: No such file or directory; {expected}"
    assert fault_of(tmp_path) == f"{tmp_path}: cannot be read: Is a directory; {expected}"
    (tmp_path / "latin.yaml").write_bytes(b"collection: \xe9t\xe9")
    assert "latin.yaml: not valid YAML: 'utf-8' codec can't decode byte 0xe9" in fault_of(tmp_path / "latin.yaml")


@pytest.mark.slow
def test_thousands_of_unknown_settings_are_counted_and_the_first_shown(tmp_path: Path) -> None:
    fault = fault_of(yaml(tmp_path, "".join(f"k{number}: 1\n" for number in range(9_000))))
    lines = fault.splitlines()
    assert (len(lines), lines[-1]) == (51, "… and 8950 more")
    assert lines[1].startswith(f"k1: unknown setting (set by {tmp_path / 'retriever.yaml'}:2)")


def test_a_path_that_no_file_can_have_is_refused_by_its_setting(tmp_path: Path) -> None:
    file = yaml(tmp_path, 'top_k: 3\nstore:\n  path: "a\\0b"')
    fault = fault_of(file)
    assert fault.startswith("store.path: expected the path of a file or folder (embedded null byte)")
    assert fault.endswith(f"(set by {file}:3)")


def test_what_a_small_alias_stands_for_is_taken(tmp_path: Path) -> None:
    file = yaml(tmp_path, "keyword: &words {synonyms: {arm: [limb]}}\nfilters: {tags: &tags [a, b]}\n")
    config = build(RetrieverConfig, [file_layer(file, RetrieverConfig)])
    assert config.keyword.synonyms == {"arm": ("limb",)}


def test_dotted_names_work_in_a_file_too(tmp_path: Path) -> None:
    file = yaml(tmp_path, "store.path: db\nstore: {timeout_s: 3}\n")
    store = build(RetrieverConfig, [file_layer(file, RetrieverConfig)]).store
    assert (store.path, store.timeout_s) == (tmp_path / "db", 3)


def test_names_that_are_not_text_are_unknown_settings(tmp_path: Path) -> None:
    file = yaml(tmp_path, "5: x\nstore: {true: y}")
    assert [fault.partition(" (")[0] for fault in sorted(fault_of(file).splitlines())] == [
        "5: unknown setting",
        "store.True: unknown setting",
    ]


@pytest.mark.parametrize("text", ["1:20", "0:0.95:0.05", "12:30:45", "-1:30"])
def test_digits_joined_by_colons_are_text(text: str, tmp_path: Path) -> None:
    assert file_layer(yaml(tmp_path, f"top_k: {text}\nx: {{a: {text}}}"), RetrieverConfig).values == {
        "top_k": text,
        "x": {"a": text},
    }


def test_each_setting_has_its_line(tmp_path: Path) -> None:
    layer = file_layer(yaml(tmp_path, "a: 1\nb:\n  c: {d: 2}\n  e.f: 3"), RetrieverConfig)
    assert layer.lines == {"a": 1, "b": 2, "b.c": 3, "b.c.d": 3, "b.e.f": 4}
