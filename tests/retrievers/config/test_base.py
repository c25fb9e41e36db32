import pytest
from pydantic import ValidationError

from retrievers.config import EmbeddingConfig, StoreConfig
from tests.support.collections import settings


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("http://localhost:6333", "http://localhost:6333"),
        ("https://xyz.cloud.qdrant.io/", "https://xyz.cloud.qdrant.io"),
        ("http://[::1]:6333", "http://[::1]:6333"),
        ("http://host/prefix/", "http://host/prefix"),
    ],
)
def test_an_address_is_kept_without_its_last_slash(given: str, kept: str) -> None:
    assert StoreConfig.model_validate({"url": given}).url == kept
    assert EmbeddingConfig.model_validate({"base_url": given}).base_url == kept


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("localhost:6333", "expected an http:// or https:// address"),
        ("ftp://host", "expected an http:// or https:// address"),
        ("http://", "expected an http:// or https:// address"),
        ("http://ho st", "expected an http:// or https:// address"),
        ("", "expected an http:// or https:// address"),
        ("http://host:99999", "the port is not a number from 0 to 65535"),
        ("http://host:abc", "the port is not a number from 0 to 65535"),
        ("http://[bad", "Invalid IPv6 URL"),
        ("http://user:secret@host", "must not carry credentials"),
        ("http://secret@host", "must not carry credentials"),
        ("http://host?api_key=secret", "must not carry credentials"),
    ],
)
def test_an_address_that_is_none_or_carries_a_secret_is_refused(address: str, message: str) -> None:
    for model, name in ((StoreConfig, "url"), (EmbeddingConfig, "base_url")):
        with pytest.raises(ValidationError, match=message):
            model.model_validate({name: address})


def test_settings_do_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        settings().top_k = 7  # type: ignore[misc]
