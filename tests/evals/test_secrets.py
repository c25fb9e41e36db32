"""Secrets in what models, servers, addresses and a user's own code say: no byte that a run writes holds one."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from evals.run import main
from tests.support.chat_server import CohereChatServer, Output, fails, says
from tests.support.cohere_server import KEY as COHERE
from tests.support.command import Done
from tests.support.experiment import Experiment, load_report, settings
from tests.support.judged_experiment import judge_flags, known_of, make_judged
from tests.support.loopback import Fault, Reply
from tests.support.qdrant_server import KEY as QDRANT
from tests.support.qdrant_server import QdrantServer
from tests.support.tracking import MlflowServer

TOKEN, PASSWORD, OWN = "mlflow-token-S3CR3T-77", "p4ssw0rd-S3CR3T-78", "own-service-S3CR3T-79"
ESCAPED = "".join(f"\\u{ord(letter):04x}" for letter in COHERE)
RETRIEVER = f"""
from langchain_core.retrievers import BaseRetriever

class make(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager):
        raise RuntimeError("the service at https://me:{PASSWORD}@example.com refused {OWN}")
"""
PLAIN = "--metrics=ranking/*"
Run = Callable[..., Done]


@pytest.fixture
def run(here: Path, mlflow_database: Path, monkeypatch: pytest.MonkeyPatch, command: Run) -> Run:
    monkeypatch.setattr("evals.judge.asking.BASE_S", 0.0)
    monkeypatch.syspath_prepend(here)
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    made = make_judged(here / "made")
    (here / "mlruns").mkdir()
    shutil.copy(mlflow_database, here / "mlruns")
    # Of the two ways to have a key, one each.
    (here / ".env").write_text(f"COHERE_API_KEY={COHERE}\n")
    for name, value in {"QDRANT_API_KEY": QDRANT, "MLFLOW_TRACKING_TOKEN": TOKEN, "OWN_API_KEY": OWN}.items():
        monkeypatch.setenv(name, value)

    def one(name: str, *arguments: Any) -> Done:
        files = [f"--{flag}={name}.{end}" for flag, end in (("output", "json"), ("html", "html"), ("junit", "xml"))]
        done = command(main, "--config", made.config, *files, "--verbose", "--tracking.enabled=true", *arguments)
        Path(f"{name}.out").write_text(f"{done.code}\n{done.out}\n{done.err}")
        return done

    return one


@pytest.fixture
def server(run: Run, tmp_path: Path) -> Iterator[CohereChatServer]:
    with CohereChatServer(known_of(settings(Experiment(tmp_path / "made")))[2]) as running:
        yield running


def assert_no_secret(folder: Path, *, least: int) -> None:
    files = [path for path in folder.rglob("*") if path.is_file() and path.name not in (".env", "own_retriever.py")]
    secrets = [secret.encode() for secret in (COHERE, QDRANT, TOKEN, PASSWORD, OWN)]
    assert [(str(path), secret) for path in files for secret in secrets if secret in path.read_bytes()] == []
    assert sum(b"***" in path.read_bytes() for path in files) >= least


def test_answers_and_errors_of_a_judge(run: Run, server: CohereChatServer, tmp_path: Path) -> None:
    def tells(right: Output) -> Output:
        return Output(text=right.text.replace('"reason": "', f'"reason": "{COHERE}, or {ESCAPED}: '))

    wrong = json.dumps({"verdict": COHERE, "reason": COHERE})
    with (
        server.faulty(says(tells)),
        server.faulty(says(lambda _: Output(text=f"My key is {COHERE}.")), share=0.15, seed=1) as malformed,
        server.faulty(says(lambda _: Output(text=wrong)), share=0.15, seed=2) as outside_the_schema,
        server.faulty(fails(400, f"no: {COHERE}"), share=0.15, seed=3) as refused,
    ):
        done = run("judged", *judge_flags(server, tmp_path))
    assert malformed and outside_the_schema and refused and done.code == 3
    rows = load_report(tmp_path / "judged.json")["queries"]
    verdicts = [(hit.get("judge") or {}).get("reason") or "" for row in rows for hit in row["retrieved"]]
    assert any(reason.startswith("***, or ***: ") for reason in verdicts)
    assert (tmp_path / "verdicts.sqlite").stat().st_size
    # Report, page, JUnit, MLflow's database and its report, the verdict store, the output.
    assert_no_secret(tmp_path, least=6)


def test_errors_of_servers_and_of_a_users_retriever(run: Run, server: CohereChatServer, tmp_path: Path) -> None:
    def quoting(*secrets: str) -> Fault:
        said = f"refused {' '.join(secrets)}"
        return Fault(reply=Reply.json({"message": said, "status": {"error": said}}, 400))

    (tmp_path / "own_retriever.py").write_text(RETRIEVER)
    done = [run("own", "--retriever.python=own_retriever:make", PLAIN)]
    with QdrantServer(api_key=QDRANT) as qdrant, qdrant.failing(quoting(QDRANT)):
        done.append(run("qdrant", f"--retriever.store.url={qdrant.url}", PLAIN))
    with server.failing(quoting(COHERE, f"https://me:{PASSWORD}@host")):
        cohere = ["--retriever.store.path=other", "--retriever.embedding.model=cohere:embed-english-v3.0"]
        done.append(run("embedding", *cohere, f"--retriever.embedding.base-url={server.url}", PLAIN))
        rerank = ["--retriever.rerank=cross-encoder", f"--retriever.cross-encoder.base-url={server.url}"]
        done.append(run("rerank", *rerank, PLAIN))
    bad = Reply.json({"error_code": "BAD_REQUEST", "message": f"{TOKEN} of {PASSWORD}"}, 400)
    with MlflowServer() as mlflow, mlflow.failing(Fault(reply=bad, on="runs/create")):
        uri = mlflow.url.replace("http://", f"http://me:{PASSWORD}@")
        done.append(run("mlflow", f"--tracking.uri={uri}", PLAIN))
    assert [(one.code, "***" in one.err) for one in done] == [(2, True)] * 4 + [(3, True)]
    assert_no_secret(tmp_path, least=5)
