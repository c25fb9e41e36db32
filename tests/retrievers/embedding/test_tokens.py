import pytest

from retrievers.embedding.tokens import count_tokens, package_folder, tokenizer


@pytest.mark.parametrize(("text", "count"), [("", 0), ("robot", 1), ("hello world", 2), ("a b c d", 4)])
def test_tokens_are_counted_without_begin_and_end_marks(text: str, count: int) -> None:
    assert count_tokens(text) == count


def test_long_texts_are_neither_cut_nor_padded() -> None:
    assert count_tokens("robot " * 5000) >= 5000


def test_the_tokenizer_is_loaded_once() -> None:
    assert tokenizer() is tokenizer()


def test_the_folder_of_a_package_is_found() -> None:
    assert (package_folder("tests") / "conftest.py").is_file()


@pytest.mark.parametrize("name", ["no_such_package", "sys", "abc"])
def test_what_is_not_a_package_is_refused(name: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=f"package '{name}' is not installed"):
        package_folder(name)
