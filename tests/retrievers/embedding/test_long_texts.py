"""Texts of megabytes: counted and embedded in parts, with the same tokens and the same mean."""

import numpy as np
import pytest

from retrievers.embedding import static, tokens
from retrievers.embedding.tokens import count_tokens, token_parts, tokenizer
from tests.support.child import ROOT

TEXT = "\n\n".join(
    file.read_text(encoding="utf-8") for file in sorted((ROOT / "datasets/physical_ai_handbook/docs").rglob("*.md"))[:6]
)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (tokens, static):
        monkeypatch.setattr(module, "PART", 500)


def test_parts_have_the_tokens_of_the_text(small_parts: None) -> None:
    parts = token_parts(TEXT)
    assert " ".join(parts) == TEXT and max(map(len, parts)) < 1_000 < len(TEXT)
    assert count_tokens(TEXT) == len(tokenizer().encode(TEXT, add_special_tokens=False).ids)


def test_the_vector_is_the_mean_of_all_tokens(small_parts: None) -> None:
    model = static.StaticEmbeddings()
    whole = model._model.embed([TEXT], norm=True)[0]
    assert np.allclose(model.embed_documents(["arm", TEXT])[1], whole, atol=1e-6)


def test_a_word_without_end_is_cut() -> None:
    assert "".join(token_parts("x" * 100_000)) == "x" * 100_000
    assert max(map(len, token_parts("x" * 100_000))) <= 20_000
