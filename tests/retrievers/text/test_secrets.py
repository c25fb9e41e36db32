import time

import pytest

from retrievers.config.layers import api_key, environment
from retrievers.errors import StoreError
from retrievers.text.secrets import redacted, remember, remember_environment, remember_password, without_secrets

KEY = "planted-key/1+2=3"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://me:pw@host:1/a", "http://***@host:1/a"),
        ("http://me:p/w?d#@host", "http://***@host"),
        ("at 'https://token@host/x', twice", "at 'https://***@host/x', twice"),
        ("postgresql://u:pw@db/runs?password=pw&sslmode=require", "postgresql://***@db/runs?password=***&sslmode=***"),
        ("https://host/page?signature", "https://host/page?***"),
        ("https://host/page#access_token=abc", "https://host/page#access_token=***"),
        ("GET /collections/x?wait=true", "GET /collections/x?wait=***"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
        ("me@example.com asked: why? #1 & #2", "me@example.com asked: why? #1 & #2"),
        ("https://host/docs/page", "https://host/docs/page"),
    ],
)
def test_what_addresses_carry_is_hidden(text: str, shown: str) -> None:
    assert redacted(text) == shown


def test_long_texts_of_addresses_are_read_once() -> None:
    for text in ("://" * 200_000, "?" * 600_000, "a://b@" * 100_000):
        start = time.perf_counter()
        redacted(text)
        assert time.perf_counter() - start < 1


def test_a_known_secret_is_hidden_however_it_is_written() -> None:
    remember(KEY)
    for written in (KEY, "planted-key%2F1%2B2%3D3", "planted-key/1%2B2%3D3", repr(KEY)):
        assert "planted" not in without_secrets(f"the key {written} is wrong")


def test_the_words_of_local_servers_are_no_secrets() -> None:
    remember("none")
    assert without_secrets("none of it") == "none of it"


def test_an_error_does_not_tell_a_key_that_was_read() -> None:
    assert api_key({"MINE": KEY}, "MINE") == KEY
    error = StoreError(f"the server said: unknown key {KEY}").tried("search", 2, " (2 attempts)")
    assert str(error) == "the server said: unknown key *** (2 attempts)"


@pytest.mark.parametrize(
    ("name", "hidden"),
    [("COHERE_API_KEY", True), ("HF_TOKEN", True), ("MLFLOW_TRACKING_PASSWORD", True), ("AWS_SECRET_ACCESS_KEY", True),
     ("PARTITION_KEY", False), ("KEYBOARD", False)],
)  # fmt: skip
def test_variables_whose_names_say_so_hold_secrets(name: str, hidden: bool) -> None:
    environment({name: KEY})
    assert (without_secrets(KEY) == "***") == hidden


def test_the_password_of_an_address_is_a_secret() -> None:
    remember_password("postgresql://me:pass%20word-1@db/runs")
    assert without_secrets("FATAL: pass%20word-1, or pass word-1") == "FATAL: ***, or ***"
    remember_password("http://[bad")
    remember_environment({})
