"""Every command of the README and of the pages that it leads to first, run in a checkout; `.ci/run` runs make's."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from langchain_qdrant import QdrantVectorStore
from qdrant_client import QdrantClient, models

from retrievers import QdrantRetriever
from retrievers.config import EmbeddingConfig, RetrieverConfig, StoreConfig
from tests.support.chat_server import CohereChatServer
from tests.support.cohere_server import DIMENSION, KEY, CohereServer
from tests.support.collections import hosted_embeddings
from tests.support.golden_labels import golden_labels, load
from tests.support.indexing import write_pages
from tests.support.judging import Oracle
from tests.support.pdf_files import pdf
from tests.support.qdrant_server import QdrantServer

pytestmark = [pytest.mark.integration, pytest.mark.slow]
ROOT = Path(__file__).parents[2]
PAGES_OF_DOCS = ("search", "sweep", "own_data")
FILES = (ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in PAGES_OF_DOCS))
FUNCTION = (ROOT / "docs" / "collections.md").read_text(encoding="utf-8").partition("## A function that makes it")[2]
README = "\n".join([*(file.read_text(encoding="utf-8") for file in FILES), FUNCTION])
BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
BLOCKS = [(kind, re.sub(f"^{indent}", "", text, flags=re.MULTILINE)) for indent, kind, text in BLOCK.findall(README)]
COMMANDS = list(dict.fromkeys(line for kind, text in BLOCKS if kind == "bash" for line in text.splitlines()))
P95 = re.compile(r"(?<= )[\d.]+(?= \d+ of \d+)")
"""Milliseconds of the table of levels: they differ with the machine."""
PAGES = ("encoders", "grippers", "gaits", "batteries")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("readme") / "checkout"
    ignored = shutil.ignore_patterns(".git", ".venv*", ".qdrant", "mlruns", "__pycache__", ".*_cache", ".hypothesis")
    shutil.copytree(ROOT, folder, ignore=ignored)
    return folder


def run(command: str, folder: Path, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command of the README in the folder."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={"PATH": path, "HOME": str(folder), "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "120", **(env or {})},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def named(*starts: str) -> list[str]:
    return [command for command in COMMANDS if command.startswith(starts)]


def test_no_command_of_the_readme_goes_untested() -> None:
    ours = [*OWN, *MANUALS, *BEIR, *WITH_THE_HANDBOOK, *COMPARED, *JUDGED, *SAVED, "make run", "make test", "make ui"]
    assert [command for command in COMMANDS if command not in ours] == []


WITH_THE_HANDBOOK = [
    *named("python -m retrievers search", "python -m retrievers inspect"),
    *named("python -m evals.run --html"),
    *named("python -m evals.run --retriever", "python -m evals.run --dataset", "python -m evals.run --config evals"),
    *named("python -m evals.run --sweep", "python -m evals.run --threshold"),
]
COMPARED = named("python -m evals.run --tracking.run-name", "python -m evals.compare")
SAVED = named("python -m evals.run --save-retrieval", "python -m evals.run --from-retrieval")
JUDGED = named("python -m evals.run --config evals/config/presets/cohere.yaml")
MANUALS = [command for command in COMMANDS if "manuals" in command]
BEIR = [command for command in COMMANDS if "scifact" in command or "beir.yaml" in command]
ELSEWHERE = [*JUDGED, *MANUALS, *BEIR]
WITH_THE_HANDBOOK = [
    command for command in WITH_THE_HANDBOOK if "QDRANT_URL" not in command and command not in ELSEWHERE
]
OWN = [
    *[command for command in COMMANDS if "QDRANT_URL" in command],
    *named("python -m evals.golden check", "python -m evals.run --config mine.yaml"),
    *named("python -m evals.run --config theirs.yaml"),
]


@pytest.fixture(scope="module")
def after_make_run(checkout: Path) -> Path:
    done = run("python -m evals.run --quiet", checkout)
    assert done.returncode in (0, 1), done.stderr
    return checkout


@pytest.mark.parametrize("command", WITH_THE_HANDBOOK)
def test_commands_on_the_handbook(command: str, after_make_run: Path) -> None:
    done = run(command, after_make_run)
    assert (done.returncode in (0, 1), done.stderr) == (True, "")
    assert "physical_ai_handbook" in done.stdout
    if "--sweep.threshold 0:0.6:0.02" in command:
        shown, printed = (P95.sub("p95", " ".join(text.split())) for text in (sample("★ recommended"), done.stdout))
        assert shown in printed


def test_a_folder_of_manuals_is_indexed_and_searched(tmp_path: Path) -> None:
    folder = write_pages(tmp_path / "manuals", {"arm.html": "<h1>Arm</h1><p>Calibrate a joint encoder at its stop."})
    (folder / "base.pdf").write_bytes(pdf(["The base has four wheels."]))
    index, search = (run(f"PYTHONPATH={ROOT} {command}", tmp_path) for command in MANUALS)
    assert index.stdout.startswith("2 pages, 2 chunks in collection 'manuals'"), index.stderr
    assert "arm.html" in search.stdout
    assert "collection: manuals" in (tmp_path / "manuals.yaml").read_text(encoding="utf-8")


def test_a_beir_folder_is_measured_with_three_commands(tmp_path: Path) -> None:
    texts = {"d1": "Arms have seven joints.", "d2": "Wheels turn on axles.", "d3": "Batteries hold a charge."}
    corpus = "".join(json.dumps({"_id": key, "title": "", "text": text}) + "\n" for key, text in texts.items())
    queries = '{"_id": "q1", "text": "joints of an arm"}\n{"_id": "q2", "text": "what do wheels turn on"}\n'
    judged = "query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td2\t1\nq2\td3\t0\n"
    files = {"corpus.jsonl": corpus, "queries.jsonl": queries, "qrels/test.tsv": judged}
    write_pages(tmp_path / "scifact", files)
    index, imported, measured = (run(f"PYTHONPATH={ROOT} {command}", tmp_path) for command in BEIR)
    assert index.stdout.startswith("3 documents, 3 chunks in collection 'scifact'"), index.stderr
    assert "2 relevant documents, 1 judged and not relevant" in imported.stdout, imported.stderr
    assert (measured.returncode, measured.stderr) == (0, "")
    assert "hit rate 1.000, recall 1.000" in " ".join(measured.stdout.split())


def sample(words: str) -> str:
    """The output that the README shows and that has these words."""
    return next(text for kind, text in BLOCKS if kind == "text" and words in text)


def test_two_runs_are_compared_and_the_last_command_fails_as_it_says(after_make_run: Path) -> None:
    first, second, compare, gate = COMPARED
    for command in (first, second):
        assert run(command, after_make_run).returncode in (0, 1)
    shown, failed = run(compare, after_make_run), run(gate, after_make_run)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "retriever.rerank  none → mmr" in shown.stdout
    assert (failed.returncode, failed.stderr) == (1, "")
    printed = [line.split() for line in failed.stdout.splitlines()]
    assert [line for line in sample("win/tie/loss").splitlines() if line.split() not in printed] == []


def test_a_run_from_a_saved_retrieval_needs_no_store(after_make_run: Path) -> None:
    save, start = SAVED
    store, away = after_make_run / ".qdrant", after_make_run / "away"
    done = run(save, after_make_run)
    assert (done.returncode, done.stderr) == (0, "")
    store.rename(away)
    try:
        done = run(start, after_make_run)
        assert (done.returncode, done.stderr, store.exists()) == (0, "", False)
    finally:
        away.rename(store)
    assert "started from the retrieval 'retrieved.parquet'" in done.stdout


def test_commands_with_a_judge(after_make_run: Path) -> None:
    """Against the loopback in Cohere's place; everything else as it stands in the README."""
    plan, judged = JUDGED
    golden = load(after_make_run / "datasets" / "physical_ai_handbook" / "golden.jsonl")
    store = StoreConfig(path=after_make_run / ".qdrant")
    with QdrantRetriever.open(RetrieverConfig(store=store), env={}) as retriever:
        oracle = Oracle(golden_labels(golden.cases, retriever.chunks()))
    with CohereChatServer(oracle) as cohere:
        places = ("retriever.embedding", "retriever.cross-encoder", "judge")
        here = "".join(f" --{place}.base-url {cohere.url}" for place in places)
        planned = run(plan + here, after_make_run, {"COHERE_API_KEY": KEY})
        assert (planned.returncode, planned.stderr) == (0, "")
        assert "ragas/llm_context_precision" in planned.stdout and not cohere.chats
        done = run(judged + here, after_make_run, {"COHERE_API_KEY": KEY})
    assert (done.returncode in (0, 1), done.stderr) == (True, "")
    for name in ("ragas/llm_context_recall", "judge/agreement", "judge/self_agreement"):
        assert name in done.stdout


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, str]]:
    with QdrantServer(api_key="q-key") as qdrant, CohereServer() as cohere:
        env = {
            "QDRANT_URL": qdrant.url,
            "QDRANT_API_KEY": "q-key",
            "COHERE_API_KEY": KEY,
            "RAG_DEFAULT_COLLECTION": "manual",
        }
        fill(qdrant.client, cohere.url)
        yield {**env, "cohere": cohere.url}


def fill(client: QdrantClient, cohere: str) -> None:
    """A collection as somebody else made it: no recorded model, other names for the fields."""
    size = models.VectorParams(size=DIMENSION, distance=models.Distance.COSINE)
    client.create_collection("manual", vectors_config=size)
    config = EmbeddingConfig(provider="cohere", base_url=cohere)
    embeddings = hosted_embeddings(config, {"COHERE_API_KEY": KEY})
    store = QdrantVectorStore(client, "manual", embedding=embeddings, validate_collection_config=False)
    texts = [f"What {page} are made of, and how part {n} of them is calibrated." for page in PAGES for n in range(3)]
    metadata = [
        {"url": f"/manual/{page}", "title": page, "document_section": f"{page} > {n}"}
        for page in PAGES
        for n in range(3)
    ]
    store.add_texts(texts, metadata)


def test_commands_on_your_own_qdrant_and_cohere(checkout: Path, servers: dict[str, str]) -> None:
    inspect, init, validate, evaluate, theirs = OWN
    shown = run(inspect, checkout, servers)
    assert "source_url: url" in shown.stdout, shown.stderr
    assert run(init, checkout, servers).returncode == 0
    unfilled = run(validate, checkout, servers)
    assert (unfilled.returncode, "golden.jsonl:1: query" in unfilled.stderr) == (2, True)
    file = checkout / "golden.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    for row in rows:
        row["query"] = row["evidence"][0]["quote"] if row.get("evidence") else f"zebra {row['id']}"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run(validate, checkout, servers).returncode == 0
    mine, _, foreign = (text for kind, text in BLOCKS if kind == "yaml")
    reached = mine.replace("provider: cohere,", f"provider: cohere, base_url: '{servers['cohere']}',")
    (checkout / "mine.yaml").write_text(reached)
    done = run(evaluate, checkout, servers)
    assert done.returncode in (0, 1), done.stderr
    report = json.loads((checkout / "report.json").read_text())
    assert report["metrics"]["ranking/hit_rate_at_5"]["value"] == 1
    first, snippet, script, factory = (text for kind, text in BLOCKS if kind == "python")
    shown = run(f"python - <<'END'\n{snippet}\nprint(len(documents), session.status)\nEND", checkout, servers)
    assert shown.stdout.split()[-1:] == ["success"], shown.stderr
    quote = "Turn the joint to its mark and store the offset"
    given = f"retriever = lambda query: [{quote!r}]"
    for text in (first, script):
        scripted = run(f"python - <<'END'\n{given}\n{text}\nEND", checkout, servers)
        assert "hit rate 1.000" in " ".join(scripted.stdout.split()), scripted.stderr
    assert (checkout / "run" / "report.html").is_file()
    reached = factory.replace('model="embed', f'base_url="{servers["cohere"]}", model="embed')
    (checkout / "my_retriever.py").write_text(reached)
    (checkout / "theirs.yaml").write_text(foreign)
    done = run(f"{theirs} --output theirs.json", checkout, servers)
    assert done.returncode == 0, done.stderr
    by_its_store = json.loads((checkout / "theirs.json").read_text())
    assert by_its_store["facts"]["retriever"] == "QdrantVectorStore"
    assert by_its_store["metrics"]["ranking/hit_rate_at_5"]["value"] == 1
    assert by_its_store["metrics"]["ranking/recall_at_5"]["value"] > 0
    assert by_its_store["queries"][0]["retrieved"][0]["score"] == pytest.approx(1, abs=1e-6)
