"""Term weights against the formula, synonyms, abbreviations, and queries that hold no term."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from qdrant_client.models import SparseVector
from qdrant_edge import Bm25, Bm25Config

from retrievers.embedding.bm25 import B, Bm25Encoder, K, expand, spell_out
from tests.support.hybrid import BruteForceBm25

ENCODER = Bm25Encoder("english", 4.0)
WORDS = "robot robots running run joint joints the and of a sensor sensors ROS2 naïve Größe x1 don't".split()
TEXTS = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)


def weights(vector: SparseVector) -> dict[int, float]:
    return dict(zip(vector.indices, vector.values, strict=True))


@given(text=TEXTS, average=st.sampled_from([1.0, 4.0, 256.0]))
def test_the_weights_of_a_document_are_the_formulas_and_those_of_a_query_its_counts(text: str, average: float) -> None:
    terms, encoder = BruteForceBm25({}, average).terms(text), Bm25Encoder("english", average)
    counts, length = Counter(terms), len(terms) / average
    found = encoder.document(text)
    expected = {term: tf * (K + 1) / (tf + K * (1 - B + B * length)) for term, tf in counts.items()}
    assert weights(found) == pytest.approx(expected, rel=1e-6)
    assert list(found.indices) == sorted(found.indices) and encoder.length(text) == len(terms)
    asked = weights(encoder.query(text))
    assert asked == counts
    assert asked.keys() == {*Bm25(Bm25Config(language="english")).embed_query(text).indices}, "as Qdrant's own encoder"


@pytest.mark.parametrize("text", ["", " ", "the and of a", "🤖", "🤖🦾 !?", "--", "\x00", "…"])
def test_a_text_without_terms_has_none(text: str) -> None:
    assert ENCODER.query(text) == ENCODER.document(text) == SparseVector(indices=[], values=[])
    assert ENCODER.length(text) == 0


def test_words_are_compared_by_their_stems_in_lower_case() -> None:
    assert ENCODER.query("x " * 2_000).values == [2_000]
    alike = [("running robots", "Run ROBOT"), ("日本語", "日本語"), ("robot🤖arm", "arm robot"), ("the robot", "robot")]
    for one, other in alike:
        assert ENCODER.query(one) == ENCODER.query(other)
    for one, other in [("naïve", "naive"), ("Größe", "GRÖSSE"), ("ros2", "ros 2")]:
        assert ENCODER.query(one) != ENCODER.query(other)
    german = Bm25Encoder("german")
    assert german.query("der Roboter und die Gelenke") == german.query("Roboter Gelenk")
    assert len(german.query("der Roboter").indices) == 1 and len(ENCODER.query("der Roboter").indices) == 2


def test_expansions_weigh_less_and_neither_lessen_nor_raise_a_term_of_the_query() -> None:
    plain, synonym = ENCODER.query("robot").indices[0], ENCODER.query("android").indices[0]
    expanded = ENCODER.query("robot or robots", ["robots", "the android", "androids"])
    assert weights(expanded) == {plain: 2.0, synonym: 0.5}
    assert list(expanded.indices) == sorted(expanded.indices)
    assert weights(ENCODER.query("the", ["robot"])) == {plain: 0.5}, "expansions alone are searched for"


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
