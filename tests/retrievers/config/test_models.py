from typing import Any

import pytest
from pydantic import ValidationError

from retrievers.config import EmbeddingConfig, RetrieverConfig
from retrievers.config.layers import Layer, build


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


@pytest.mark.parametrize(
    ("values", "label"),
    [
        ({"model": "openai:text-embedding-3-small"}, "openai:text-embedding-3-small"),
        ({"model": "python:mine:make"}, "python:mine:make"),
        ({"provider": "python", "model": "cohere:make"}, "python:cohere:make"),
        ({"provider": "cohere", "model": "cohere:embed-v4.0"}, "cohere:embed-v4.0"),
        ({"provider": "ollama", "model": "nomic-embed-text:v1.5"}, "ollama:nomic-embed-text:v1.5"),
        ({"model": "ollama:nomic-embed-text:v1.5"}, "ollama:nomic-embed-text:v1.5"),
    ],
)
def test_provider_and_model_are_named_together_or_apart(values: dict[str, str], label: str) -> None:
    assert EmbeddingConfig.model_validate(values).label == label


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model": "opnai:small"}, "did you mean 'openai'"),
        ({"model": "voyage:voyage-3.5"}, "any other LangChain Embeddings, by embedding.model python:MODULE:FACTORY"),
        ({"provider": "cohere", "model": "openai:small"}, "is of provider 'openai', but provider is 'cohere'"),
        ({"provider": "python", "model": "m:f", "options": {"a": 1}}, "options cannot be set for provider 'python'"),
        ({"provider": "bedrock"}, "needs model: the name of one"),
        ({"provider": "python"}, "provider 'python' needs model: module:factory, got None"),
        ({"model": "openai:small", "options": {"api_key": "sk-SECRET"}}, "belongs into an environment variable"),
    ],
)
def test_what_a_provider_does_not_take_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        EmbeddingConfig.model_validate(values)
    assert message in str(caught.value)


def test_a_provider_named_with_its_model_replaces_that_of_lower_layers() -> None:
    file = Layer(label="file", values={"embedding": {"provider": "cohere", "model": "embed-v4.0"}})
    flag = Layer(label="flag", values={"embedding": {"model": "openai:small"}})
    assert build(RetrieverConfig, [file, flag]).embedding.label == "openai:small"


def test_all_that_decides_about_vectors_is_part_of_the_identity() -> None:
    assert EmbeddingConfig().identity == {"provider": "wordllama", "model": "l2_supercat_256"}
    chosen = {"dimensions": 256, "query_prefix": "q: ", "document_prefix": "", "options": {"user": "docs"}}
    config = EmbeddingConfig.model_validate({"model": "openai:small", **chosen})
    assert config.identity == {"provider": "openai", "model": "small", **chosen}
