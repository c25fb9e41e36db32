"""Term weights against the formula, synonyms, abbreviations, and queries that hold no term."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from qdrant_client.models import SparseVector
from qdrant_edge import Bm25, Bm25Config

from retrievers.config import KeywordConfig
from retrievers.embedding.bm25 import B, Bm25Encoder, K, expand, spell_out
from tests.support.bm25 import BruteForceBm25

ENCODER = Bm25Encoder("english", 4.0)
WORDS = "robot robots running run joint joints the and of a sensor sensors ROS2 naïve Größe x1 don't".split()
TEXTS = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)


def weights(vector: SparseVector) -> dict[int, float]:
    return dict(zip(vector.indices, vector.values, strict=True))


# Documents


@pytest.mark.parametrize("average", [1.0, 4.0, 256.0])
@given(text=TEXTS)
def test_a_documents_weights_are_the_formulas(text: str, average: float) -> None:
    terms = BruteForceBm25({}, average).terms(text)
    expected = {
        term: tf * (K + 1) / (tf + K * (1 - B + B * len(terms) / average)) for term, tf in Counter(terms).items()
    }
    found = Bm25Encoder("english", average).document(text)
    assert weights(found) == pytest.approx(expected, rel=1e-6)
    assert list(found.indices) == sorted(found.indices)


@given(TEXTS)
def test_the_length_is_the_number_of_terms_repeated_ones_included(text: str) -> None:
    assert ENCODER.length(text) == len(BruteForceBm25({}, 1).terms(text))


# Queries


@given(TEXTS)
def test_a_query_weighs_each_of_its_terms_by_its_count(text: str) -> None:
    found = weights(ENCODER.query(text))
    assert found == Counter(BruteForceBm25({}, 1).terms(text))
    assert found.keys() == {*Bm25(Bm25Config(language="english")).embed_query(text).indices}, "as Qdrant's own encoder"


def test_a_count_is_exact() -> None:
    assert ENCODER.query("x " * 2_000).values == [2_000]


@pytest.mark.parametrize("text", ["", " ", "the and of a", "🤖", "🤖🦾 !?", "--", "\x00", "…"])
def test_a_text_without_terms_has_none(text: str) -> None:
    assert ENCODER.query(text) == ENCODER.document(text) == SparseVector(indices=[], values=[])
    assert ENCODER.length(text) == 0


def test_words_are_compared_by_their_stems_in_lower_case() -> None:
    alike = [("running robots", "Run ROBOT"), ("日本語", "日本語"), ("robot🤖arm", "arm robot"), ("the robot", "robot")]
    for one, other in alike:
        assert ENCODER.query(one) == ENCODER.query(other)
    for one, other in [("naïve", "naive"), ("Größe", "GRÖSSE"), ("ros2", "ros 2")]:
        assert ENCODER.query(one) != ENCODER.query(other)


def test_expansions_weigh_less_and_neither_lessen_nor_raise_a_term_of_the_query() -> None:
    plain, synonym = ENCODER.query("robot").indices[0], ENCODER.query("android").indices[0]
    expanded = ENCODER.query("robot or robots", ["robots", "the android", "androids"], 0.25)
    assert weights(expanded) == {plain: 2.0, synonym: 0.25}
    assert list(expanded.indices) == sorted(expanded.indices)
    assert weights(ENCODER.query("the", ["robot"])) == {plain: 0.5}, "expansions alone are searched for"


# Languages


@pytest.mark.parametrize("name", ["arabic", "chinese", "english", "german", "hinglish"])
def test_every_language_named_is_known(name: str) -> None:
    assert KeywordConfig(language=name).language == name


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("klingon", "no stop words and stemmer for 'klingon'"),
        ("English", "no stop words and stemmer for 'English'; did you mean 'english'"),
        ("germany", "no stop words and stemmer for 'germany'; did you mean 'german'"),
        ("", "no stop words and stemmer for ''"),
    ],
)
def test_an_unknown_language_is_refused_with_the_nearest(name: str, said: str) -> None:
    with pytest.raises(ValueError) as caught:
        KeywordConfig(language=name)
    assert said in str(caught.value)


def test_another_language_has_its_own_stems_and_stop_words() -> None:
    german = Bm25Encoder("german")
    assert german.query("der Roboter und die Gelenke") == german.query("Roboter Gelenk")
    assert len(german.query("der Roboter").indices) == 1 and len(ENCODER.query("der Roboter").indices) == 2


# Synonyms and abbreviations


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
    "IMU drift": "IMU (inertial measurement unit) drift",
    "IMU, IMU": "IMU (inertial measurement unit), IMU (inertial measurement unit)",
    "ROS nodes": "ROS (robot operating system with IMU) nodes",
    "ROS 2 nodes": "ROS 2 (its second version) nodes",
    "ROS 20": "ROS (robot operating system with IMU) 20",
    "in C++": "in C++ (a language)",
    "e.g. nodes": "e.g. (for example) nodes",
    **{query: query for query in ("imu drift", "IMUs", "nothing", "")},
}


def test_synonyms_are_those_of_whole_words_in_the_tables_order() -> None:
    assert {query: expand(query, SYNONYMS) for query in EXPANDED} == EXPANDED


def test_abbreviations_are_spelt_out_once_the_longest_first_whatever_the_order_of_the_table() -> None:
    for table in (ABBREVIATIONS, dict(reversed(ABBREVIATIONS.items()))):
        assert {query: spell_out(query, table) for query in SPELT} == SPELT
