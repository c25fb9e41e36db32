"""Declarations of providers: what a new one brings along, and what settings say without."""

import pytest
from pydantic import ValidationError

from retrievers.config import CROSS_ENCODER_PROVIDERS, EMBEDDING_PROVIDERS, EmbeddingConfig, Provider


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
        ("coherre", "Input should be 'wordllama', 'cohere' or 'python'; did you mean 'cohere'?"),
        ("python", "provider 'python' needs model: 'module:factory', got None"),
    ],
)
def test_what_is_no_provider_or_lacks_a_model_is_named(provider: str, said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        EmbeddingConfig.model_validate({"provider": provider})
    assert said in str(caught.value)


@pytest.mark.parametrize("declared", [*EMBEDDING_PROVIDERS.values(), *CROSS_ENCODER_PROVIDERS.values()])
def test_a_hosted_provider_declares_its_key_and_its_name_in_messages(declared: Provider) -> None:
    assert (declared.hosted is True) == (declared.key_env is not None) == bool(declared.title)
