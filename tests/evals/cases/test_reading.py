"""Golden data read from every kind of source, by `golden_set` and `load_golden`; every fault has its place."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ragas import EvaluationDataset
from ragas.dataset_schema import SingleTurnSample
from ragas.testset.synthesizers.testset_schema import Testset as RagasTestset
from syrupy.assertion import SnapshotAssertion

from evals import Golden
from evals.cases.case import Case
from evals.cases.reading import case_fingerprint, golden_set, load_golden, rows_of
from evals.config.experiment import DatasetConfig
from evals.errors import DatasetError
from tests.support.command import python
from tests.support.loopback import LoopbackServer, Reply, Request
from tests.support.tracking import MlflowServer

PASSAGE = {"source_url": "/docs/a", "quote": "a quote"}


def row(name: str, **values: Any) -> dict[str, Any]:
    return {"id": name, "query": f"query {name}", "evidence": [PASSAGE], **values}


def lines(rows: Sequence[Mapping[str, Any]], end: str = "\n") -> bytes:
    return "".join(json.dumps(one, ensure_ascii=False) + end for one in rows).encode()


def load(path: Path, **settings: Any) -> Golden:
    return load_golden(DatasetConfig(path=path, **settings))


def ids(golden: Golden) -> list[str]:
    return [one.id for one in golden.cases]


def refused(path: Path) -> DatasetError:
    with pytest.raises(DatasetError) as caught:
        load(path)
    return caught.value


def test_a_case_is_as_it_was_written_up_to_every_limit() -> None:
    written = {
        "id": "a", "query": " ".join(["w"] * 512), "evidence": [{"source_url": "/docs/a", "grade": 10}],
        "relevant_ids": {"x": 2, "y": 0, "z": -1}, "min_results": 100, "human_verdicts": {"x": 1, "ü y": 0},
        "reference_answer": "yes",
    }  # fmt: skip
    assert Case.model_validate(written).model_dump(exclude_unset=True) == written


def test_the_documentation_names_every_field_and_its_example_is_valid() -> None:
    text = (Path(__file__).parents[3] / "docs" / "golden.md").read_text(encoding="utf-8")
    assert [name for name in Case.model_fields if f"`{name}`" not in text] == []
    [example] = re.findall(r"^```json\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert Case.model_validate_json(example).human_verdicts


@pytest.mark.parametrize(
    ("data", "places"),
    [
        (lines([row("b"), row("a")]), [1, 2]),
        (b"\xef\xbb\xbf" + lines([row("b"), row("a")], "\r\n"), [1, 2]),
        (b"\n" + lines([row("b")]) + b"  \n" + lines([row("a")]).rstrip(), [2, 4]),
        (lines([row("b", query="one\u2028two\x85"), row("a")]), [1, 2]),
    ],
)
def test_json_lines_give_cases_in_order_with_their_places(tmp_path: Path, data: bytes, places: list[int]) -> None:
    file = tmp_path / "2.jsonl"
    file.write_bytes(data)
    assert load(file).places == {name: f"{file}:{line}" for name, line in zip("ba", places, strict=True)}
    (tmp_path / "1.CSV").write_text("id,query\nfirst,how?\n")
    assert ids(load(tmp_path)) == ["first", "b", "a"], "a folder is read in the order of its names"
    file = tmp_path / "golden.json"
    file.write_text(json.dumps([row("a"), row("b")], indent=2))
    assert (ids(load(file)), load(file).places["b"]) == (["a", "b"], f"{file}: element 2")


LONG = (
    f'{{"min_results": {"9" * 5_000}}}',
    "[" * 100_000,
    json.dumps(row("l", query=" ".join(["w"] * 513))),
    json.dumps(row("m", query="w" * 4_001)),
)
BAD_BEIR = (
    ('{"_id": "q1"}', "q1\td\t1\n"),
    ('{"_id": "q1", "text": "a"}', "\nq1 d 1\nq9\td\t1\n"),
    ('{"_id": "q1", "text": "a"}', "q1\td\t1\nq1\te\t1.5\n"),
    ('{"_id": "q1", "text": "a"}', "q1\td\t" + "9" * 5_000),
)
BAD_FILES: dict[str, bytes] = {
    "empty.jsonl": b"\n \n",
    "latin.jsonl": b'{"id": "\xff"}',
    "other.csv": b"question,answer\n" + b"how?,so\n" * 99,
    "misspelt.csv": b"query,reference_anser\nhow?,so\n",
    "long.csv": b"query,quote\nhow?,a,b,c\n",
    "grade.csv": b"query,quote,grade\nhow?,a,high\n",
    "scope.csv": b"query,in_scope\nhow?,maybe\n",
    "twice.csv": b"query,quote,quote\nhow?,a,b\n",
    "again.csv": b"id,query,quote\na,how?,one\na,how?,two\n",
    "windows.csv": b'query;quote;grade\r\nq;"one\r\ntwo";3\r\nr;"one\r\ntwo";9.5\r\n',
    "unclosed.csv": b'query,quote\nhow?,"one\nwhy?,two\n',
    "broken.parquet": b"PAR1",
    **{f"array{n}.json": b"[\n" + b",\n".join(lines([row(str(n))]) for n in range(9)) + end.encode()
       for n, end in enumerate(("", ",x]", "]]"))},
    "object.json": b'{\n "query": "how?"\n}\n',
}  # fmt: skip


def test_every_fault_is_told_at_once_with_place_and_expectation(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    file = tmp_path / "g.jsonl"
    bad = Path(__file__).with_name("bad.jsonl").read_text("utf-8").strip()
    file.write_text("\n".join((bad, *LONG)), encoding="utf-8")
    assert [fault.replace(str(tmp_path), "") for fault in refused(file).faults] == snapshot(name="lines")
    assert str(refused(file)).startswith("22 faults in the golden data:")
    for name, data in BAD_FILES.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "folder").mkdir()
    told = [str(refused(tmp_path / name)) for name in (*BAD_FILES, "missing.jsonl", "a.yml", "folder")]
    for number, (queries, qrels) in enumerate(BAD_BEIR):
        (tmp_path / f"beir{number}").mkdir()
        told.append(str(refused(beir(tmp_path / f"beir{number}", queries, qrels))))
    told = [re.sub("ArrowInvalid.*", "…", one.replace(str(tmp_path), "")) for one in told]
    assert told == snapshot(name="files")
    file.write_text("x\n" * 60)
    assert (len(refused(file).faults), refused(file).faults[-1]) == (51, "… and 10 more")


def test_tables_are_golden_data_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "g.csv"
    for delimiter in ",;\t":
        table = "id;query;quote;grade;in_scope;tags\na;how?;the first;3;;x\nb;who?;;;no;\n"
        file.write_text(table.replace(";", delimiter))
        first, second = load(file).cases
        assert [(e.quote, e.grade) for e in first.evidence] == [("the first", 3)]
        assert (first.tags, second.in_scope, load(file).places["b"]) == (["x"], False, f"{file}:3")
    file.write_text("query,quote,relevant_ids\nhow?,one,a b:2\nwhy?,,\"{'c': 2}\"\n")
    found = [(len(one.evidence), one.relevant_ids) for one in load(file).cases]
    assert found == [(1, {"a": 1, "b:2": 1}), (0, {"c": 2})]
    # What pandas, spreadsheets and old programs add: numbers of rows, a blank last row, carriage returns alone.
    numbered, blank = b",query,quote\n0,how?,a\n1,who?,b\n", b"query;quote\nhow?;a\nwho?;b\n;\n"
    for written in (numbered, blank, b"query,quote\rhow?,a\rwho?,b\r"):
        file.write_bytes(written)
        assert [(one.query, one.evidence[0].quote) for one in load(file).cases] == [("how?", "a"), ("who?", "b")]
    # A row grades all that it names.
    file.write_text('id,query,relevant_ids,contexts,grade\na,Which?,d2 d3,"{""port"": 8080}",2\n')
    [case] = load(file).cases
    assert case.relevant_ids == {"d2": 2, "d3": 2}
    assert [(item.quote, item.grade) for item in case.evidence] == [('{"port": 8080}', 2)]
    frame = pd.DataFrame({"id": ["1", None], "query": ["q", "r"], "quote": ["one", "three"]})
    for table in (frame, datasets.Dataset.from_pandas(frame)):
        assert [(one.id, len(one.evidence)) for one in golden_set(table).cases] == [("1", 1), ("q002", 1)]
    frame = pd.DataFrame([row("a", tags=["x", "y"]), {"id": "b", "query": "who?", "in_scope": False}])
    frame.to_parquet(tmp_path / "g.parquet")
    assert load(tmp_path / "g.parquet").cases == golden_set(frame).cases == golden_set(frame.to_dict("records")).cases
    assert golden_set(frame).cases[0].tags == ["x", "y"]


@pytest.mark.parametrize("made", ["t.csv", "t.jsonl", "rows", "evaluation.csv", "evaluation"])
def test_what_ragas_writes_is_golden_data_as_it_is(tmp_path: Path, made: str) -> None:
    texts = ["A stepper turns.", "Ask, and\nwait [for] 'it'."]
    samples: list[dict[str, Any]] = [
        {"user_input": "How fast?", "reference": "10", "reference_contexts": texts},
        {"user_input": "How hot?"},
    ]
    testset: Any = RagasTestset.from_list([{**sample, "synthesizer_name": "single"} for sample in samples])
    if made.startswith("evaluation"):
        testset = EvaluationDataset(samples=[SingleTurnSample(**sample) for sample in samples])
    if made in ("rows", "evaluation"):
        golden = golden_set(testset.to_list() if made == "rows" else testset)
    else:
        getattr(testset, f"to_{made.rpartition('.')[2]}")(tmp_path / made)
        golden = load(tmp_path / made)
    first, second = golden.cases
    assert (first.id, first.query, first.reference_answer, second.is_unlabelled) == ("q001", "How fast?", "10", True)
    assert [evidence.quote for evidence in first.evidence] == texts
    assert first.query_type == (None if made.startswith("evaluation") else "single")


def test_nothing_in_a_dataset_is_opened(tmp_path: Path) -> None:
    with MlflowServer() as server:
        features = datasets.Features({"query": datasets.Value("string"), "picture": datasets.Image()})
        picture = {"path": f"{server.url}/picture.png", "bytes": None}
        made = datasets.Dataset.from_dict({"query": ["x"], "picture": [picture]}, features=features)
        made.to_parquet(str(tmp_path / "saved.parquet"))
        server.requests.clear()  # of who made it
        rows = rows_of(tmp_path / "saved.parquet", DatasetConfig(), {"query": "query"})
        assert [cells["query"] for _, cells in rows] == ["x"]
        configs = f"configs: [{{config_name: default, data_files: '{server.url}/rows.jsonl'}}]"
        (tmp_path / "saved").mkdir()
        (tmp_path / "saved" / "README.md").write_text(f"---\n{configs}\n---\n")
        refused(tmp_path / "saved")
        assert server.requests == []


HUB, COMMIT = "someone/queries", "a" * 40


class HubServer(LoopbackServer):
    """The hub of Hugging Face with the files of one dataset, as huggingface_hub 1 and datasets 4 ask it."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        super().__init__()
        self.files = files

    def answer(self, request: Request) -> Reply:
        api, files = f"/api/datasets/{HUB}", f"/datasets/{HUB}/resolve/{COMMIT}/"
        if request.path == f"{api}/revision/{COMMIT}":
            siblings = [{"rfilename": name} for name in self.files]
            return Reply.json({"id": HUB, "sha": COMMIT, "siblings": siblings, "tags": [], "private": False})
        if request.path.startswith((f"{api}/tree/{COMMIT}", f"{api}/paths-info/{COMMIT}")):
            return Reply.json([{"type": "file", "path": n, "size": len(b), "oid": "0"} for n, b in self.files.items()])
        body = self.files.get(request.path.removeprefix(files))
        if body is None:
            return Reply(status=404, headers={"X-Error-Code": "EntryNotFound"})
        facts = {"X-Repo-Commit": COMMIT, "ETag": f'"{len(body)}"', "X-Linked-Size": str(len(body))}
        return Reply(body=b"" if request.method == "HEAD" else body, content_type="text/plain", headers=facts)


FROM_HUB = f"""
from evals.cases.reading import load_golden
from evals.config.experiment import DatasetConfig
for split in (None, "train", "test", "dev"):
    try:
        golden = load_golden(DatasetConfig(hub={HUB!r}, revision={COMMIT!r}, split=split))
        print([(golden.places[one.id], one.split, one.relevant_ids) for one in golden.cases])
    except Exception as error:
        print(error)
"""


def test_a_dataset_of_the_hub_is_read_at_its_commit_by_split(tmp_path: Path) -> None:
    rows = lines([row("a", relevant_ids='{"x": 2}', evidence=[]), {"id": "b", "query": "who?", "in_scope": False}])
    with HubServer({"train.jsonl": rows, "test.jsonl": rows.split(b"\n")[0] + b"\n"}) as hub:
        env = {"HF_ENDPOINT": hub.url, "HF_HUB_OFFLINE": "0", "HF_DATASETS_OFFLINE": "0"}
        found = python(["-c", FROM_HUB], tmp_path, {**env, "HF_HOME": str(tmp_path / "1")})
        places = [f"hub:{HUB}:{number}" for number in (1, 2)]
        both = [[(places[0], split, {"x": 2}), (places[1], split, {})] for split in (None, "train")]
        assert found.stdout.splitlines()[:3] == [*map(str, both), str([(places[0], "test", {"x": 2})])], found.stderr
        assert "no split 'dev'; it has none" in found.stdout
        assert all(COMMIT in one.path or one.path == "/api/agent-harnesses" for one in hub.requests)
        hub.files = {}
        lost = python(["-c", FROM_HUB], tmp_path, {**env, "HF_HOME": str(tmp_path / "2")}).stdout.splitlines()
        said = f"hub:{HUB}: cannot be read: "
        assert [line[: len(said)] for line in lost] == [said] * 4


def beir(folder: Path, queries: str, qrels: str, name: str = "test") -> Path:
    (folder / "qrels").mkdir(exist_ok=True)
    (folder / "queries.jsonl").write_text(queries)
    (folder / "qrels" / f"{name}.tsv").write_text(qrels)
    return folder


def test_a_folder_of_beir_is_read_and_unjudged_queries_are_left_out(tmp_path: Path) -> None:
    queries = '{"_id": "q1", "text": "lift"}\n{"_id": 2, "text": "drag", "metadata": {}}\n{"_id": "q3", "text": ""}\n'
    beir(tmp_path, queries, "query-id\tcorpus-id\tscore\nq1\td7\t2\nq1\td8\t0\nq1\td9\t-1\n2\td7\t0\n")
    found = [(one.id, one.query, one.split, one.relevant_ids) for one in load(tmp_path).cases]
    assert found == [("q1", "lift", "test", {"d7": 2, "d8": 0, "d9": -1})]
    beir(tmp_path, queries, "2\td9\t1\n", "dev")
    assert ids(load(tmp_path)) == ["q1"] and ids(load(tmp_path, split="dev")) == ["2"]


CASES = golden_set([row("a", split="dev"), row("b", split="test"), row("c", split="test"), row("d")])


@pytest.mark.parametrize(
    ("settings", "chosen"),
    [
        ({}, "abcd"),
        ({"split": "test", "limit": 1}, "b"),
        ({"ids": ("c", "a", "a")}, "ac"),
        ({"ids": ("a",), "split": "test"}, "a"),
    ],
)
def test_which_cases_are_chosen(settings: dict[str, Any], chosen: str) -> None:
    golden = golden_set(CASES, DatasetConfig(**settings))
    assert "".join(ids(golden)) == chosen
    assert golden.fingerprint == golden_set([case for case in CASES.cases if case.id in chosen]).fingerprint


@given(st.permutations(range(4)), st.randoms())
def test_the_fingerprint_does_not_depend_on_order_of_cases_or_keys(order: list[int], random: Any) -> None:
    rows = [list(CASES.cases[place].model_dump(exclude_defaults=True).items()) for place in order]
    for items in rows:
        random.shuffle(items)
    assert golden_set([dict(items) for items in rows]).fingerprint == CASES.fingerprint


def test_what_changes_the_fingerprints_and_what_does_not(handbook: Path) -> None:
    plain = row("a", reference_answer="yes")
    changes: list[dict[str, Any]] = [
        {"query": "another"}, {"reference_answer": "no"}, {"min_results": 2}, {"evidence": [{**PASSAGE, "grade": 2}]},
        {"evidence": [PASSAGE, PASSAGE]}, {"relevant_ids": {"x": 1}}, {"expected_topics": ["t"]},
        {"split": "dev"}, {"tags": ["x"]}, {"query_type": "t"}, *({"human_verdicts": {"x": n}} for n in (0, 1)),
    ]  # fmt: skip
    made = [golden_set([{**plain, **change}]) for change in ({}, *changes)]
    assert len({one.fingerprint for one in made}) == len(made)
    assert len({case_fingerprint(one.cases[0]) for one in made}) == 8, "sorting and verdicts change no query's score"
    evidence = [{**passage, "labelled": True} for passage in plain["evidence"]]
    labelled = {**plain, "evidence": evidence, "labelling": {"by": ["ada"], "at": "now", "pool": ["s"], "depth": 5}}
    assert golden_set([labelled]).fingerprint == made[0].fingerprint
    content = made[0].cases[0].model_dump(mode="json", exclude={"human_verdicts", "labelling"})
    content["evidence"] = [{k: v for k, v in passage.items() if k != "labelled"} for passage in content["evidence"]]
    text = json.dumps([content], sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    assert made[0].fingerprint == hashlib.sha256(text.encode()).hexdigest()
    assert load(handbook / "golden.jsonl").fingerprint.startswith("3731ab810ad1")
