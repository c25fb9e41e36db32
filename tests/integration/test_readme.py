"""Every command of the README and of the pages it leads to first, and docs/compare.md's workflow, in a checkout."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from langchain_qdrant import QdrantVectorStore
from qdrant_client import models

from evals.cases.reading import golden_set
from retrievers import QdrantRetriever
from retrievers.config import EmbeddingConfig, RetrieverConfig, StoreConfig
from retrievers.embedding.models import make_embeddings
from tests.support.chat_server import MODEL, CohereChatServer
from tests.support.cohere_server import DIMENSION, KEY, CohereServer
from tests.support.indexing import pdf, write_pages
from tests.support.judging import Oracle, golden_labels
from tests.support.qdrant_server import QdrantServer

pytestmark = [pytest.mark.integration, pytest.mark.slow]
ROOT = Path(__file__).parents[2]
FILES = (ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in ("search", "sweep", "own_data")))
FUNCTION = (ROOT / "docs" / "collections.md").read_text(encoding="utf-8").partition("## A function that makes it")[2]
README = "\n".join([*(file.read_text(encoding="utf-8") for file in FILES), FUNCTION])
WORKFLOW = (ROOT / "docs" / "compare.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
GROUPS: Mapping[str, tuple[str, ...]] = {
    "own": ("QDRANT_URL", "golden check", "mine.yaml", "theirs.yaml"),
    "manuals": ("manuals",),
    "beir": ("scifact", "beir.yaml"),
    "judged": ("--config cohere",),
    "compared": ("run-name", "evals.compare"),
    "saved": ("retrieved.parquet",),
    "make": ("make ",),
}
"""Marks of commands that need more than the handbook; `.ci/run` runs make's."""
P95 = re.compile(r"(?<= )[\d.]+(?= \d+ of \d+)")
"""Milliseconds of the table of levels: they differ with the machine."""
PAGES = ("encoders", "grippers", "gaits", "batteries")


def blocks(text: str, kind: str) -> list[str]:
    found = [(indent, code) for indent, named, code in BLOCK.findall(text) if named == kind]
    return [re.sub(f"^{indent}", "", code, flags=re.MULTILINE) for indent, code in found]


def commands(group: str) -> list[str]:
    lines = dict.fromkeys(line for block in blocks(README, "bash") for line in block.splitlines())
    groups = {
        line: next((name for name, marks in GROUPS.items() if any(mark in line for mark in marks)), "handbook")
        for line in lines
    }
    return [line for line, name in groups.items() if name == group]


def sample(words: str) -> str:
    return next(text for text in blocks(README, "text") if words in text)


def run(command: str, folder: Path, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    usual = {"PATH": path, "HOME": str(folder), "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "120"}
    return subprocess.run(
        ["bash", "-e", "-c", command],
        cwd=folder, env=usual | {**(env or {})}, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout after `make run`; its virtual environment is of this one's programs."""
    folder = tmp_path_factory.mktemp("readme") / "checkout"
    ignored = shutil.ignore_patterns(".git", ".venv*", ".qdrant", "mlruns", "__pycache__", ".*_cache", ".hypothesis")
    shutil.copytree(ROOT, folder, ignore=ignored)
    (folder / ".venv").mkdir()
    for name in ("bin", "lib", "pyvenv.cfg"):
        (folder / ".venv" / name).symlink_to(Path(sys.prefix, name))
    (folder / ".venv" / ".installed").touch()
    done = run("python -m evals.run --quiet", folder)
    assert done.returncode in (0, 1), done.stderr
    return folder


def test_make_is_asked_for_what_it_has() -> None:
    assert commands("make") == ["make run", "make test", "make ui"]


@pytest.mark.parametrize("command", commands("handbook"))
def test_commands_on_the_handbook(command: str, checkout: Path) -> None:
    done = run(command, checkout)
    assert (done.returncode in (0, 1), done.stderr) == (True, "")
    assert "physical_ai_handbook" in done.stdout
    if "--sweep.threshold 0:0.6:0.02" in command:
        shown, printed = (P95.sub("p95", " ".join(text.split())) for text in (sample("★ recommended"), done.stdout))
        assert shown in printed


def test_a_folder_of_manuals_is_indexed_and_searched(tmp_path: Path) -> None:
    folder = write_pages(tmp_path / "manuals", {"arm.html": "<h1>Arm</h1><p>Calibrate a joint encoder at its stop."})
    (folder / "base.pdf").write_bytes(pdf(["The base has four wheels."]))
    index, search = (run(command, tmp_path, {"PYTHONPATH": str(ROOT)}) for command in commands("manuals"))
    assert index.stdout.startswith("2 pages, 2 chunks in collection 'manuals'"), index.stderr
    assert "arm.html" in search.stdout
    assert "collection: manuals" in (tmp_path / "manuals.yaml").read_text(encoding="utf-8")


def test_a_beir_folder_is_measured_with_three_commands(tmp_path: Path) -> None:
    texts = {"d1": "Arms have seven joints.", "d2": "Wheels turn on axles.", "d3": "Batteries hold a charge."}
    corpus = "".join(json.dumps({"_id": key, "title": "", "text": text}) + "\n" for key, text in texts.items())
    queries = '{"_id": "q1", "text": "joints of an arm"}\n{"_id": "q2", "text": "what do wheels turn on"}\n'
    judged = "query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td2\t1\nq2\td3\t0\n"
    write_pages(tmp_path / "scifact", {"corpus.jsonl": corpus, "queries.jsonl": queries, "qrels/test.tsv": judged})
    index, imported, measured = (run(command, tmp_path, {"PYTHONPATH": str(ROOT)}) for command in commands("beir"))
    assert index.stdout.startswith("3 documents, 3 chunks in collection 'scifact'"), index.stderr
    assert "beir-golden.jsonl: 2 cases of scifact, 0 of them out of scope" in imported.stdout, imported.stderr
    assert (measured.returncode, measured.stderr) == (0, "")
    assert "hit rate 1.000, recall 1.000" in " ".join(measured.stdout.split())


def test_two_runs_are_compared_and_the_last_command_fails_as_it_says(checkout: Path) -> None:
    first, second, compare, gate = commands("compared")
    for command in (first, second):
        assert run(command, checkout).returncode in (0, 1)
    shown, failed = run(compare, checkout), run(gate, checkout)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "retriever.rerank  none → mmr" in shown.stdout
    assert (failed.returncode, failed.stderr) == (1, "")
    printed = [line.split() for line in failed.stdout.splitlines()]
    assert [line for line in sample("win/tie/loss").splitlines() if line.split() not in printed] == []


def test_a_run_from_a_saved_retrieval_needs_no_store(checkout: Path) -> None:
    save, start = commands("saved")
    store = checkout / ".qdrant"
    done = run(save, checkout)
    assert (done.returncode, done.stderr) == (0, "")
    away = store.rename(checkout / "away")
    done, is_made = run(start, checkout), store.exists()
    away.rename(store)
    assert (done.returncode, done.stderr, is_made) == (0, "", False)
    assert "started from the retrieval 'retrieved.parquet'" in done.stdout


def test_commands_with_a_judge(checkout: Path) -> None:
    golden = golden_set(checkout / "datasets" / "physical_ai_handbook" / "golden.jsonl")
    store = StoreConfig(path=checkout / ".qdrant")
    with QdrantRetriever.open(RetrieverConfig(store=store), env={}) as retriever:
        oracle = Oracle(golden_labels(golden.cases, retriever.chunks()))
    with CohereChatServer(oracle) as cohere:
        places = ("retriever.embedding", "retriever.cross-encoder", "judge")
        here = "".join(f" --{place}.base-url {cohere.url}" for place in places)
        plan, judged = (command + here for command in commands("judged"))
        planned = run(plan, checkout, {"COHERE_API_KEY": KEY})
        assert (planned.returncode, planned.stderr) == (0, "")
        assert "ragas/llm_context_precision" in planned.stdout and not cohere.chats
        cohere.requests.clear()
        done = run(f"{judged} --output judged.json", checkout, {"COHERE_API_KEY": KEY})
    assert (done.returncode in (0, 1), done.stderr) == (True, "")
    assert {request.path for request in cohere.requests} == {"/v1/embed", "/v2/rerank", "/v2/chat"}
    asked = {(chat.model, chat.temperature, chat.seed, bool(chat.response_format)) for chat in cohere.chats}
    assert asked == {(MODEL, 0, 0, True)}
    report = (checkout / "judged.json").read_text(encoding="utf-8")
    usage = json.loads(report)["judge"]["usage"]
    assert usage["calls"] == len(cohere.chats)
    assert usage["usd"] == pytest.approx((usage["tokens_in"] * 2.5 + usage["tokens_out"] * 10) / 1e6)
    assert KEY not in report + done.stdout
    assert {"ragas/llm_context_recall", "judge/agreement", "judge/self_agreement"} <= {*done.stdout.split()}


# One's own Qdrant, and Cohere


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, str]]:
    with QdrantServer(api_key="q-key") as qdrant, CohereServer() as cohere:
        # A collection as somebody else would make it: no recorded model, other names for the fields.
        config = EmbeddingConfig(base_url=cohere.url, model="cohere:embed-english-v3.0")
        embeddings = make_embeddings(config, {"COHERE_API_KEY": KEY})
        size = models.VectorParams(size=DIMENSION, distance=models.Distance.COSINE)
        qdrant.client.create_collection("manual", vectors_config=size)
        store = QdrantVectorStore(qdrant.client, "manual", embedding=embeddings, validate_collection_config=False)
        for page in PAGES:
            texts = [f"What {page} are made of, and how part {n} of them is calibrated." for n in range(3)]
            about = {"url": f"/manual/{page}", "title": page}
            store.add_texts(texts, [{**about, "document_section": f"{page} > {n}"} for n in range(3)])
        yield {
            "QDRANT_URL": qdrant.url,
            "QDRANT_API_KEY": "q-key",
            "COHERE_API_KEY": KEY,
            "RAG_DEFAULT_COLLECTION": "manual",
            "cohere": cohere.url,
        }


def test_commands_on_your_own_qdrant_and_cohere(checkout: Path, servers: dict[str, str]) -> None:
    inspect, init, validate, choose, evaluate, theirs = commands("own")
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
    mine, _, foreign = blocks(README, "yaml")
    reached = mine.replace("embedding: {", f"embedding: {{base_url: '{servers['cohere']}', ")
    (checkout / "mine.yaml").write_text(reached)
    chosen = run(choose, checkout, servers)
    assert "Which threshold and top_k?" in chosen.stdout, chosen.stderr
    done = run(evaluate, checkout, servers)
    assert done.returncode in (0, 1), done.stderr
    assert json.loads((checkout / "report.json").read_text())["metrics"]["ranking/hit_rate_at_5"]["value"] == 1
    first, snippet, script, factory = blocks(README, "python")
    shown = run(f"python - <<'END'\n{snippet}\nprint(len(documents), session.status)\nEND", checkout, servers)
    assert shown.stdout.split()[-1:] == ["success"], shown.stderr
    given = 'retriever = lambda query: ["Turn the joint to its mark and store the offset"]'
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


# The workflow, step by step as the CI system would: main first, then pull requests


def test_the_workflow_keeps_a_baseline_and_stops_what_makes_retrieval_worse(checkout: Path) -> None:
    here = checkout
    [workflow] = blocks(WORKFLOW, "yaml")
    steps = yaml.safe_load(workflow)["jobs"]["evaluate"]["steps"]
    assert all("uses" in step for step in steps if "run" not in step)
    install, evaluate, compare, keep = (step["run"] for step in steps if "run" in step)
    committed, add, compared = "".join(blocks(WORKFLOW, "bash")).splitlines()

    def passes(command: str) -> str:
        done = run(command, here, {"GITHUB_PATH": str(here / "path")})
        assert (done.returncode, done.stderr) == (0, ""), command
        return done.stdout

    def read(name: str) -> Any:
        return json.loads((here / name).read_text(encoding="utf-8"))

    for command in (install, evaluate, keep):
        passes(command)
    assert (here / "path").read_text() == f"{here / '.venv' / 'bin'}\n"
    assert read("baseline.json") == read("report.json")
    assert (here / "junit.xml").read_text().startswith("<?xml")
    # A pull request that changes nothing.
    passes(evaluate)
    passes(compare)
    assert read("comparison.json")["passed"] is True
    # The baseline in the repository.
    passes(committed)
    assert passes(f"git init --quiet && {add} && git diff --cached --name-only") == "tests/retrieval-baseline.json\n"
    assert "pass  ranking/ndcg_at_5" in passes(compared)
    # A pull request that makes it worse.
    experiment = here / "evals" / "config" / "presets" / "default.yaml"
    before = experiment.read_text()
    experiment.write_text(before.replace("top_k: 5", "top_k: 1"))
    code = run(evaluate, here).returncode
    experiment.write_text(before)
    assert code in (0, 1)
    done = run(compare, here)
    assert (done.returncode, done.stderr) == (1, "")
    assert "FAIL  ranking/ndcg_at_5" in done.stdout
    [found] = read("comparison.json")["comparisons"]
    assert {one["what"]: one["other"] for one in found["settings"]}["retriever.top_k"] == 1
