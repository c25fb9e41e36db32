"""Metrics that read texts and metadata: ragas' own against its classes; are results true, complete, not said twice?"""

import random
import warnings
from collections.abc import Mapping
from dataclasses import replace
from math import isnan
from statistics import fmean
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from evals.cases.pages import SourcePages
from evals.collect.observations import Observation, Unscored
from evals.metrics import METRICS
from evals.metrics.declaration import summarise
from evals.metrics.metadata import SAMPLE, usual_in, wrong_fields
from evals.metrics.results import NO_CHUNKS
from retrievers.records import Chunk
from tests.support.observed import make_case, make_chunk, make_context, observe, results, results_of, scored, scorer

CLASSES: Mapping[str, str] = {
    "ragas/id_context_precision": "IDBasedContextPrecision",
    "ragas/id_context_recall": "IDBasedContextRecall",
    "ragas/nonllm_context_precision": "NonLLMContextPrecisionWithReference",
    "ragas/nonllm_context_recall": "NonLLMContextRecall",
}
WORDS = "robot joint torque sensor frame topic service action plan grasp camera depth wheel motor gain".split()
FORTY = "0123456789 abcdefghij 0123456789 abcdefg"


def random_observations(count: int = 20) -> tuple[list[Observation], dict[str, str]]:
    rng = random.Random(11)
    texts = {f"c{n}": " ".join(rng.choices(WORDS, k=rng.randint(1, 12))) for n in range(30)}
    texts |= {f"near{n}": texts[f"c{n}"] + " " + rng.choice(WORDS) for n in range(10)}
    observations = []
    for _ in range(count):
        returned = rng.sample(sorted(texts), rng.randint(1, 8))
        grades = dict.fromkeys(rng.sample(sorted(texts), rng.randint(1, 6)), 1)
        observations.append(observe(results(*(make_chunk(i, texts[i]) for i in returned)), grades))
    return observations, texts


def test_equals_ragas_which_drops_empty_results_from_two_means_where_ours_count_0() -> None:
    from ragas import EvaluationDataset, SingleTurnSample, evaluate

    observations, texts = random_observations()
    run = [*observations, observe((), {"c0": 1})]
    samples = [
        SingleTurnSample(
            retrieved_context_ids=[found.chunk.chunk_id for found in o.selection],
            retrieved_contexts=[found.chunk.text for found in o.selection],
            reference_context_ids=list(o.relevance.grades),
            reference_contexts=[texts[chunk_id] for chunk_id in o.relevance.grades],
        )
        for o in run
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # evaluate() is deprecated, and so are the very classes
        warnings.simplefilter("ignore", ResourceWarning)  # it leaves a file of its own open
        from ragas import metrics

        classes = {name: getattr(metrics, class_name)() for name, class_name in CLASSES.items()}
        found = evaluate(EvaluationDataset(samples=samples), metrics=list(classes.values()), show_progress=False)
    unlisted = replace(make_context(), relevant_texts=None)
    quoted = [replace(o, case=make_case(evidence=[{"quote": texts[key]} for key in o.relevance.grades])) for o in run]
    for name, metric in classes.items():
        ours, theirs = scored(name, run, make_context(texts=texts)), [row[metric.name] for row in found.scores]
        assert scored(name, quoted, unlisted) == ours, "quotes are the relevant texts where chunks cannot be listed"
        assert len(set(theirs[:-1])) > 3, "the results must differ in score"
        assert ours == [*(pytest.approx(score, abs=1e-9) for score in theirs[:-1]), 0.0]
        is_dropped = name in ("ragas/id_context_precision", "ragas/nonllm_context_recall")
        assert isnan(theirs[-1]) == is_dropped
        assert found._repr_dict[metric.name] == pytest.approx(sum(theirs[:-1]) / (len(run) - is_dropped))
        assert summarise(cast(Any, METRICS[name]), ours).value == pytest.approx(fmean([*theirs[:-1], 0.0]))


TEXT = st.text(alphabet="abc ", max_size=12)


@given(relevant=st.lists(TEXT, min_size=1, max_size=5), returned=st.lists(TEXT, min_size=1, max_size=6))
def test_any_texts_score_by_ragas_formula(relevant: list[str], returned: list[str]) -> None:
    similarity = [[1 - Levenshtein.normalized_distance(a, b) for a in relevant] for b in returned]
    verdicts = [1 if max(row) >= 0.5 else 0 for row in similarity]
    useful = [sum(verdicts[: place + 1]) / (place + 1) * verdict for place, verdict in enumerate(verdicts)]
    covered = [1 if max(column) > 0.5 else 0 for column in zip(*similarity, strict=True)]
    found = observe(
        results(*(make_chunk(f"found{place}", text) for place, text in enumerate(returned))),
        {f"relevant{place}": 1 for place in range(len(relevant))},
    )
    context = make_context(texts={f"relevant{place}": text for place, text in enumerate(relevant)})
    precision = scorer("ragas/nonllm_context_precision")(found, context)
    assert precision == pytest.approx(sum(useful) / (sum(verdicts) + 1e-10), rel=1e-12)
    assert scorer("ragas/nonllm_context_recall")(found, context) == sum(covered) / len(covered)


def test_a_relevant_chunk_that_the_collection_lacks_counts_and_nothing_is_like_it() -> None:
    a = make_chunk("a", "the arm turns at its base")
    found, context = observe(results(a, a), {"a": 1, "gone": 1}), make_context(texts={"a": a.text})
    assert {name: scorer(name)(found, context) for name in CLASSES} == {
        "ragas/id_context_precision": 1.0,  # what came twice counts once
        "ragas/id_context_recall": 0.5,
        "ragas/nonllm_context_precision": pytest.approx(1.0),
        "ragas/nonllm_context_recall": 0.5,
    }
    for name in ("ragas/nonllm_context_precision", "ragas/nonllm_context_recall"):
        assert scorer(name)(found, make_context(texts={"b": "else"})) == 0.0


@pytest.mark.parametrize("name", CLASSES)
def test_where_the_chunks_cannot_be_listed_ids_name_no_text_and_nothing_divides_by_all_relevant(name: str) -> None:
    context = replace(make_context(), relevant_texts=None)
    labelled = [observe(results(*found), {"a": 1}) for found in ("a", "b", "ab", "")]
    resolved = [replace(o, relevance=replace(o.relevance, incomplete="not listed")) for o in labelled]
    found, among_returned = scored(name, labelled, context), scored(name, resolved, context)
    if name.startswith("ragas/nonllm"):
        assert found == [Unscored(reason="the texts of the relevant chunks are not known")] * 4
        assert all(isinstance(score, Unscored) for score in among_returned)
    else:
        half = 0.5 if name == "ragas/id_context_precision" else 1.0
        assert found == [1.0, 0.0, half, 0.0]
        assert among_returned == ([Unscored(reason="not listed")] * 4 if half == 1 else found)


def beside(other: Chunk, *returned: Chunk, **case: Any) -> Observation:
    return observe(results(*returned), candidates=results(*returned, other), case=make_case(**case))


@pytest.mark.parametrize(
    ("change", "verbatim", "heading"),
    [
        ({}, 1.0, 1.0),
        ({"text": "A  publisher\nsends messages."}, 1.0, 1.0),  # white space aside
        ({"text": "A publisher gets messages."}, 0.0, 1.0),
        ({"text": ""}, 0.0, 1.0),
        ({"file_path": "module-1/services.md"}, 0.0, 0.0),  # text and heading of another page
        ({"file_path": None, "source_url": "/docs/gone"}, 0.0, 0.0),
        ({"heading": "Topics"}, 1.0, 1.0),
        ({"heading": "Calls"}, 1.0, 0.0),
        ({"heading": None}, 1.0, 0.0),
    ],
)
def test_text_and_heading_must_stand_in_the_page(
    chunk: Chunk, sources: SourcePages, change: dict[str, Any], verbatim: float, heading: float
) -> None:
    found, context = beside(chunk, replace(chunk, **change)), make_context(sources=sources)
    assert scorer("content/verbatim")(found, context) == verbatim
    assert scorer("content/heading_in_source")(found, context) == heading
    four = beside(chunk, replace(chunk, **change), *[replace(chunk, chunk_id=f"c{n}") for n in range(3)])
    assert scorer("content/verbatim")(four, context) == (3 + verbatim) / 4


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("same", "same", True),
        ("one holds the other", "holds", True),
        ("head " + FORTY, FORTY + " tail", True),
        ("head " + FORTY, FORTY.replace(" ", "\n") + "\n\ntail", True),
        (f"{FORTY} and {FORTY}", FORTY + " tail", True),  # not from the first place where it occurs
        ("head " + FORTY[1:], FORTY[1:] + " tail", False),  # 39 characters are chance
        ("head " + FORTY, "head " + FORTY[:-1] + "! tail", False),
    ],
)
def test_chunks_overlap_when_one_holds_the_other_or_forty_characters_are_shared(a: str, b: str, expected: bool) -> None:
    one, two, other, overlap = make_chunk("a", a), make_chunk("b", b), make_chunk("c", "@"), scorer("content/overlap")
    assert overlap(observe(results(one, two))) == overlap(observe(results(two, one))) == expected
    assert overlap(observe(results(one, other, two))) == pytest.approx(expected / 3), "a share of the pairs"
    assert overlap(observe(results(one, one, two))) == pytest.approx(1.0 if expected else 1 / 3)
    assert overlap(observe(results(one, replace(two, source_url="/docs/other")))) == 0.0
    assert overlap(observe(results(one))) == Unscored(reason="fewer than two chunks were returned")


OTHER = make_chunk("other", heading="Other", section_path="Other")
TOPICS = make_chunk("a", "A Publisher\nsends messages.", section_path="Topics > Queues", tags=("ros2", "QoS"))
SECTIONS = [
    {"source_url": "/docs/page", "heading": "Publishers"},
    {"source_url": "/docs/page", "heading": "Publishers", "quote": "said twice"},
    {"source_url": "/docs/other", "heading": "Calls"},
]
QUOTED = [{"source_url": "/docs/page", "quote": "some words"}]


def at(*addresses: str) -> list[Chunk]:
    return [make_chunk(f"c{n}", source_url=address) for n, address in enumerate(addresses)]


def of(*pairs: tuple[str, str]) -> list[Chunk]:
    return [make_chunk(*pair) for pair in pairs]


@pytest.mark.parametrize(
    ("name", "returned", "case", "expected"),
    [
        ("duplicate_rate", of(("a", "x"), ("a", "y")), {}, 0.5),  # the same id
        ("duplicate_rate", of(("a", "one two"), ("b", "one\n two")), {}, 0.5),  # the same text
        ("duplicate_rate", of(*[("a", "x")] * 4), {}, 0.75),
        ("duplicate_rate", of(("a", "x"), ("b", "y"), ("a", "y")), {}, 1 / 3),  # counted once
        ("duplicate_rate", [], {}, Unscored(reason="nothing was returned")),
        ("topic_match", [TOPICS], {"expected_topics": ["publisher"]}, 1.0),
        ("topic_match", [TOPICS], {"expected_topics": ["publisher sends"]}, 1.0),  # across a line break
        ("topic_match", [TOPICS], {"expected_topics": ["queues", "qos"]}, 1.0),  # headings and tags count
        ("topic_match", [TOPICS], {"expected_topics": ["ublisher", "message"]}, 0.5),  # from the beginning of a word
        ("topic_match", [TOPICS], {"expected_topics": ["publisher", "subscriber"]}, 0.5),
        ("topic_match", [], {"expected_topics": ["publisher"]}, 0.0),
        ("topic_match", [TOPICS], {}, Unscored(reason="the case names no topics")),
        ("section_match", [make_chunk("a", heading="Publishers", section_path="Topics > Publishers")], SECTIONS, 0.5),
        (
            "section_match",
            [make_chunk("a", heading="Queue", section_path="Topics > Publishers > Queue")],
            SECTIONS,
            0.5,
        ),
        ("section_match", [make_chunk("a", heading="Publishers")], SECTIONS, 0.5),
        ("section_match", [make_chunk("a", heading="Topics", section_path="Topics")], SECTIONS, 0.0),  # above
        ("section_match", [make_chunk("a", heading="Publishers", source_url="/docs/other")], SECTIONS, 0.0),
        ("section_match", [make_chunk("a", heading="Calls", source_url="/docs/other")], SECTIONS, 0.5),
        ("section_match", [], SECTIONS, 0.0),
        ("section_match", [TOPICS], QUOTED, Unscored(reason="the case names no sections")),
        ("source_match", at("/docs/a/topics"), {"source_url_pattern": "topics$"}, 1.0),
        ("source_match", at("/docs/a/services", "/docs/a/topics"), {"source_url_pattern": "topics$"}, 1.0),  # one does
        ("source_match", at("/docs/a/topics-2"), {"source_url_pattern": "topics$"}, 0.0),
        ("source_match", at("/docs/A/topics"), {"source_url_pattern": "^/docs/a/"}, 0.0),
        ("source_match", [], {"source_url_pattern": "topics"}, 0.0),
        ("source_match", at("/docs/a/topics"), {}, Unscored(reason="the case names no source pattern")),
    ],
)
def test_content_by_hand(name: str, returned: list[Chunk], case: Any, expected: Any) -> None:
    fields = {"evidence": case} if isinstance(case, list) else case
    found = scorer(f"content/{name}")(beside(OTHER, *returned, **fields))
    assert found == (expected if isinstance(expected, Unscored) else pytest.approx(expected))


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("content/verbatim", ("source_url", "file_path")),
        ("content/heading_in_source", ("heading",)),
        ("content/section_match", ("heading", "section_path")),
        ("content/source_match", ("source_url",)),
    ],
)
def test_metadata_that_no_chunk_has_tell_nothing(name: str, fields: Any, chunk: Chunk, sources: SourcePages) -> None:
    bare = replace(chunk, **cast(Any, dict.fromkeys(fields)))
    evidence = [{"source_url": chunk.source_url, "heading": chunk.heading}]
    case, context = make_case(evidence=evidence, source_url_pattern="."), make_context(sources=sources)
    without, empty = observe(results(bare), case=case), observe((), case=case)
    unreturned = observe((), case=case, candidates=results(chunk))
    reason = Unscored(reason=f"no chunk found carries {' or '.join(fields)}")
    assert scored(name, [without, empty], context) == [reason, reason]
    first, *_ = scored(name, [without, empty, unreturned], context)
    assert isinstance(first, float), "one chunk that carries it is enough for the others to count as wrong"
    assert scored(name, [empty], context) != [reason]


PAGE_FIELDS = ("source_url", "title", "tags", "sidebar_position", "file_path", "source_document_id", "module",
               "chapter", "heading", "section_path", "start_line", "end_line", "content_hash")  # fmt: skip


UNTITLED, TITLED = ({"source_url": "/a", "title": title} for title in ("", "T"))
LAST = {"source_url": None, "chunk_index": 0}


@pytest.mark.parametrize(
    ("found", "usual"),
    [
        ([[UNTITLED], *[[TITLED]] * 9], ("source_url", "title")),
        ([[UNTITLED], *[[TITLED]] * 8], ("source_url",)),
        ([[UNTITLED, UNTITLED, UNTITLED, LAST]], ("source_url",)),  # the fourth of a query is not read
        ([*[[UNTITLED]] * SAMPLE, *[[LAST]] * 2 * SAMPLE], ("source_url",)),  # nor are more than so many in all
    ],
)
def test_usual_fields_are_those_that_nine_tenths_of_the_best_chunks_have(
    found: list[Any], usual: tuple[str, ...]
) -> None:
    chunks = [[make_chunk(f"c{number}", **fields) for number, fields in enumerate(each)] for each in found]
    pool = results_of([observe(results(*each)) for each in chunks]).lists.pool
    assert usual_in(replace(pool, tables=(*pool.tables, replace(pool.tables[0], codes=np.full((1, 1), -1))))) == usual


def test_completeness_is_the_share_of_required_fields_over_all_returned_chunks(chunk: Chunk) -> None:
    returned = results(make_chunk("a", title="T", chunk_index=0), make_chunk("b", title="T"), make_chunk("c", title=""))
    completeness, context = scorer("metadata/completeness"), make_context(required=["title", "chunk_index"])
    assert completeness(observe(returned), context) == 0.5
    assert completeness(observe(results(chunk)), make_context(required=PAGE_FIELDS)) == 1.0
    assert completeness(observe(), context) == NO_CHUNKS
    assert completeness(observe(returned)) == Unscored(reason="no metadata field is required")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("source_url", "/docs/module-1/services"),
        ("title", "Services"),
        ("start_line", 14),
        *(("content_hash", "0" * length) for length in (32, 40, 64)),
        ("file_path", "moved.md"),  # the page is known by its address then
    ],
)
def test_every_wrong_value_is_named_beside_the_right(chunk: Chunk, sources: SourcePages, name: str, value: Any) -> None:
    assert wrong_fields(chunk, PAGE_FIELDS, sources) == ([], len(PAGE_FIELDS)), "as indexed it is right in all of them"
    [fault], compared = wrong_fields(replace(chunk, **{name: value}), PAGE_FIELDS, sources)
    assert fault.startswith(f"{name}: expected ") and fault.endswith(f" as in the page, got {value!r}")
    assert compared == len(PAGE_FIELDS)
    assert repr(getattr(chunk, name)) in fault or name == "content_hash"


def test_accuracy_is_the_mean_over_chunks(chunk: Chunk, sources: SourcePages) -> None:
    half = replace(chunk, title="Services")
    none, lost = replace(half, module="module-2"), replace(chunk, file_path="gone.md", source_url="/docs/gone")
    accuracy, context = scorer("metadata/accuracy"), make_context(required=["title", "module"], sources=sources)
    assert accuracy(observe(results(chunk, half, none)), context) == 0.5
    assert accuracy(observe(results(chunk, chunk, chunk, chunk, lost)), context) == 0.8
    assert accuracy(observe(results(chunk)), make_context(required=["title"])) == Unscored(reason="no sources")
    assert accuracy(observe(), context) == NO_CHUNKS
    for required in (["chunk_index"], []):
        found = accuracy(observe(results(chunk)), make_context(required=required, sources=sources))
        assert found == Unscored(reason="no required field can be compared with the source pages")
