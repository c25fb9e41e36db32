"""Declarations of providers: what a new one brings along, and what settings say without."""

import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest
from pydantic import ValidationError

from retrievers.config import CROSS_ENCODER_PROVIDERS, EMBEDDING_PROVIDERS, EmbeddingConfig, Provider
from retrievers.embedding.models import make_embeddings
from retrievers.errors import ConfigError


@pytest.fixture
def acme(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hosted provider without a default model."""
    declared = Provider(make=lambda *_: None, key_env="ACME_KEY", address="https://acme.example", hosted=True)
    monkeypatch.setitem(EMBEDDING_PROVIDERS, "acme", declared)


@pytest.mark.usefixtures("acme")
def test_a_provider_brings_its_key_and_the_example_of_its_address() -> None:
    config = EmbeddingConfig.model_validate({"provider": "acme", "model": "small"})
    assert (config.label, config.api_key_env) == ("acme:small", "ACME_KEY")
    own = EmbeddingConfig.model_validate({"provider": "acme", "model": "small", "api_key_env": "OURS"})
    assert own.api_key_env == "OURS"
    with pytest.raises(ValidationError, match=r"address such as https://acme\.example"):
        EmbeddingConfig.model_validate({"provider": "acme", "model": "small", "base_url": "acme"})


@pytest.mark.usefixtures("acme")
def test_a_provider_without_a_default_model_asks_for_one() -> None:
    with pytest.raises(ValidationError, match="provider 'acme' has no default model; name one as model, got None"):
        EmbeddingConfig.model_validate({"provider": "acme"})


@pytest.mark.parametrize(
    ("provider", "said"),
    [
        ("coherre", "'fastembed' or 'python'; did you mean 'cohere'?"),
        ("mistral", "did you mean 'mistralai'? (pip install 'retrieval-evals[mistralai]')"),
        ("python", "provider 'python' needs model: 'module:factory', got None"),
    ],
)
def test_what_is_no_provider_or_lacks_a_model_is_named(provider: str, said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        EmbeddingConfig.model_validate({"provider": provider})
    assert said in str(caught.value)


@pytest.mark.parametrize("declared", [*EMBEDDING_PROVIDERS.values(), *CROSS_ENCODER_PROVIDERS.values()])
def test_a_hosted_provider_has_a_name_in_messages_and_alone_has_a_key(declared: Provider) -> None:
    assert (declared.hosted is True) == bool(declared.title)
    assert declared.hosted is True or declared.key_env is None


@pytest.mark.parametrize("name", [name for name, declared in EMBEDDING_PROVIDERS.items() if declared.extra])
def test_a_provider_without_its_package_says_what_to_install(name: str) -> None:
    declared = EMBEDDING_PROVIDERS[name]
    assert declared.extra in tomllib.loads(Path("pyproject.toml").read_text())["project"]["optional-dependencies"]
    if find_spec(declared.module):
        pytest.skip(f"{declared.module} is installed")
    config = EmbeddingConfig.model_validate({"model": f"{name}:some", "base_url": "http://localhost:1"})
    with pytest.raises(ConfigError) as caught:
        make_embeddings(config, {config.api_key_env: "key"})
    package = declared.module.replace("_", "-")
    assert str(caught.value) == (
        f"embedding.model '{name}:some' needs a package that is not installed ({package}): "
        f"pip install 'retrieval-evals[{declared.extra}]'"
    )


def test_every_provider_of_langchain_is_declared() -> None:
    from langchain.embeddings.base import _BUILTIN_PROVIDERS

    assert {*_BUILTIN_PROVIDERS} <= {*EMBEDDING_PROVIDERS}
    packages = {name: package.partition(".")[0] for name, (package, *_) in _BUILTIN_PROVIDERS.items()}
    declared = {name: one.module for name, one in EMBEDDING_PROVIDERS.items() if one.extra and name in packages}
    assert declared == {name: packages[name] for name in declared}
