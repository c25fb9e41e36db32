import pytest

from retrievers.config import EmbeddingConfig


@pytest.mark.parametrize(
    ("provider", "model", "resolved"),
    [
        ("wordllama", None, "l2_supercat_256"),
        ("cohere", None, "embed-english-v3.0"),
        ("cohere", "embed-english-light-v3.0", "embed-english-light-v3.0"),
        ("python", "my.module:make", "my.module:make"),
    ],
)
def test_a_provider_has_its_default_model(provider: str, model: str | None, resolved: str) -> None:
    assert EmbeddingConfig.model_validate({"provider": provider, "model": model}).resolved_model == resolved
