import pytest
from pydantic import ValidationError

from retrievers.config import EmbeddingConfig, RetrieverConfig, StoreConfig, UnshownError, host, page_base
from retrievers.config.layers import Layer, build
from retrievers.errors import ConfigError
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
        ("http://[bad", "expected an address"),
        ("http://user:secret@host", "must not carry credentials"),
        ("http://secret@host", "must not carry credentials"),
        ("http://host?api_key=secret", "must not carry credentials"),
        ("http://host#secret", "must not carry credentials"),
        ("me:secret@host", "must not carry credentials"),
    ],
)
def test_an_address_that_is_none_or_carries_a_secret_is_refused(address: str, message: str) -> None:
    for model, name in ((StoreConfig, "url"), (EmbeddingConfig, "base_url")):
        with pytest.raises(ValidationError, match=message):
            model.model_validate({name: address})


@pytest.mark.parametrize("url", ["/docs", "/", "", "https://docs.example.com/en", "http://localhost:3000"])
def test_pages_are_below_a_path_or_a_site(url: str) -> None:
    assert page_base(url) == url


@pytest.mark.parametrize(
    "url",
    [
        "https://me:s3cret@docs.example.com", "//s3cret@docs.example.com", "s3cret@docs.example.com/docs",
        "https://me:s3/cret@host", "https://docs.example.com?token=s3cret", "/docs#s3cret", "me:s3cret@host",
        "ftp://host", "http://[s3cret", "http://me:s3cret@\u2100.com",
    ],
)  # fmt: skip
def test_pages_are_not_below_what_carries_a_secret(url: str) -> None:
    with pytest.raises(UnshownError) as caught:
        page_base(url)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("name", ["docs.example.com", "localhost:3000", "127.0.0.1:80", "[::1]:3000"])
def test_a_host_has_a_name_and_perhaps_a_port(name: str) -> None:
    assert host(name) == name


@pytest.mark.parametrize("name", ["https://docs.example.com", "me:s3cret@host", "host/path", "ho st", "", "host:port"])
def test_a_host_is_nothing_else(name: str) -> None:
    with pytest.raises(UnshownError, match=r"expected hosts such as docs\.example\.com"):
        host(name)


@pytest.mark.parametrize("name", ["COHERE_API_KEY", "KEY2", "_K"])
def test_a_variable_is_named(name: str) -> None:
    assert StoreConfig.model_validate({"api_key_env": name}).api_key_env == name


@pytest.mark.parametrize(
    "key",
    ["sk-0123456789abcdef", "x7KdQ2mZp8Lr4TnV9sWb3HcY6fJg1AeR5uXo0iBt", "hf_abcDEF", "", "A" * 32, ["sk-012345"], 5],
)
def test_a_key_in_place_of_its_variable_is_refused_and_not_told(key: object) -> None:
    layer = Layer(label="f", values={"store": {"api_key_env": key}, "embedding": {"api_key_env": key}})
    with pytest.raises(ConfigError) as caught:
        build(RetrieverConfig, [layer])
    first, second = str(caught.value).splitlines()
    expected = (
        "expected the name of an environment variable in capitals, such as COHERE_API_KEY, and not the key itself"
    )
    assert (first, second) == tuple(f"{where}.api_key_env: {expected} (set by f)" for where in ("store", "embedding"))


def test_settings_do_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        settings().top_k = 7  # type: ignore[misc]
