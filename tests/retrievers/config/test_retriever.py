from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from retrievers.config import FOREIGN_SETTINGS, RetrieverConfig, dump
from tests.support.collections import settings


def test_the_defaults_are_the_documented_ones() -> None:
    config = settings()
    assert (config.top_k, config.used_threshold, config.candidates, config.mode) == (5, None, 100, "semantic")
    assert (config.store.url, config.store.path) == (None, None)
    assert (config.embedding.provider, config.embedding.resolved_model) == ("wordllama", "l2_supercat_256")


@pytest.mark.parametrize(
    "values",
    [
        {"top_k": 1},
        {"top_k": 100},
        {"threshold": 0},
        {"threshold": 1},
        {"top_k": 7, "candidates": 7},
        {"collection": "c" * 255},
        {"collection": "Handbuch für Roboter"},
        {"store": {"timeout_s": 0.1}},
    ],
)
def test_limits_are_inclusive(values: dict[str, Any]) -> None:
    assert settings(**values).model_dump(include=set(values), exclude_unset=True) == values


@pytest.mark.parametrize(
    ("values", "setting"),
    [
        ({"top_k": 0}, "top_k"),
        ({"top_k": 101}, "top_k"),
        ({"top_k": 2.5}, "top_k"),
        ({"threshold": -0.01}, "threshold"),
        ({"threshold": 1.01}, "threshold"),
        ({"threshold": float("nan")}, "threshold"),
        ({"candidates": 0}, "candidates"),
        ({"mode": "fuzzy"}, "mode"),
        ({"store": {"timeout_s": 0}}, "store.timeout_s"),
        ({"store": {"timeout_s": float("inf")}}, "store.timeout_s"),
        ({"embedding": {"provider": "voyage"}}, "embedding.provider"),
        ({"embedding": {"provider": "python"}}, "embedding"),
        ({"embedding": {"provider": "python", "model": "my_module"}}, "embedding"),
        ({"store": {"path": "a", "url": "http://h"}}, "store"),
        ({"top_k": 6, "candidates": 5}, ""),
        ({"colection": "x"}, "colection"),
    ],
)
def test_what_is_out_of_range_or_unknown_is_refused(values: dict[str, Any], setting: str) -> None:
    with pytest.raises(ValidationError) as caught:
        settings(**values)
    assert [".".join(map(str, fault["loc"])) for fault in caught.value.errors()] == [setting]


@pytest.mark.parametrize(
    "name", ["", "  ", ".", "..", "../x", "a/b", "a\\b", "a:b", 'a"b', "a?b", "a*b", "a|b", "<a>", "a\nb", "c" * 256]
)
def test_a_collection_needs_a_name_that_qdrant_takes(name: str) -> None:
    with pytest.raises(ValidationError):
        settings(collection=name)


# Modes, fusion, reranking


def faults(**values: Any) -> dict[str, str]:
    """Setting to what is said of it."""
    with pytest.raises(ValidationError) as caught:
        settings(**values)
    return {".".join(map(str, fault["loc"])): fault["msg"] for fault in caught.value.errors()}


def test_the_defaults_of_modes_and_reranking_are_the_documented_ones() -> None:
    config = settings()
    assert (config.fusion, config.semantic_weight, config.keyword_weight, config.rrf_constant) == (
        "weighted",
        0.7,
        None,
        60,
    )
    assert (config.rerank, config.mmr_lambda, config.threshold_on) == ("none", 0.7, "each")
    assert (config.keyword.language, config.keyword.vector_name, config.keyword.synonym_weight) == (
        "english",
        "bm25",
        0.5,
    )
    assert (config.cross_encoder.provider, config.cross_encoder.resolved_model) == ("cohere", "rerank-v3.5")
    assert (config.filters, config.group_by, config.abbreviations) == (None, None, {})


@pytest.mark.parametrize(
    ("values", "setting", "said"),
    [
        ({"mmr_lambda": 2}, "mmr_lambda", "less than or equal to 1"),
        ({"mmr_lambda": -0.1}, "mmr_lambda", "greater than or equal to 0"),
        ({"semantic_weight": 1.1}, "semantic_weight", "less than or equal to 1"),
        ({"rrf_constant": 0}, "rrf_constant", "greater than 0"),
        ({"fusion": "sum"}, "fusion", "'weighted', 'rrf' or 'dbsf'"),
        ({"rerank": "cohere"}, "rerank", "'none', 'cross-encoder', 'mmr' or 'rrf'"),
        ({"threshold_on": "rerank"}, "threshold_on", "'each', 'best' or 'final'"),
        ({"keyword": {"synonym_weight": 1}}, "keyword.synonym_weight", "less than 1"),
        ({"keyword": {"synonym_weight": 0}}, "keyword.synonym_weight", "greater than 0"),
        ({"keyword": {"average_length": 0}}, "keyword.average_length", "greater than 0"),
        ({"keyword": {"vector_name": ""}}, "keyword.vector_name", "at least 1 character"),
        ({"keyword": {"language": "klingon"}}, "keyword.language", "no stop words and stemmer for 'klingon'"),
        ({"keyword": {"language": "germany"}}, "keyword.language", "did you mean 'german'"),
        ({"keyword": {"synonyms": {"🤖": ["robot"]}}}, "keyword.synonyms", "'🤖' holds no word to be found by"),
        ({"keyword": {"synonyms": {"imu": "sensor"}}}, "keyword.synonyms.imu", "valid tuple"),
        ({"abbreviations": {" ": "x"}}, "abbreviations", "a blank is no abbreviation"),
        ({"cross_encoder": {"provider": "python"}}, "cross_encoder", "needs model: 'module:factory', got None"),
        ({"cross_encoder": {"base_url": "cohere"}}, "cross_encoder.base_url", "expected an http:// or https://"),
        ({"group_by": "sorce_url"}, "group_by", "'sorce_url' is not a field of a chunk; did you mean 'source_url'"),
        ({"group_by": "text"}, "group_by", "'text' is not a field of a chunk"),
        ({"filters": "module ="}, "filters", "'module =': expected a value, got the end"),
        ({"filters": {"tags": []}}, "filters", "tags: the list of values is empty"),
        ({"filters": {}}, "filters", "expected a mapping of conditions, got {}"),
    ],
)
def test_what_a_mode_cannot_work_with_is_refused(values: dict[str, Any], setting: str, said: str) -> None:
    (found,) = faults(**values).items()
    assert found[0] == setting
    assert said in found[1]


@pytest.mark.parametrize(("semantic", "keyword"), [(0.7, 0.3), (0.1, 0.9), (1, 0), (0, 1), (0.35, 0.65)])
def test_weights_that_sum_to_1_are_taken(semantic: float, keyword: float) -> None:
    assert settings(semantic_weight=semantic, keyword_weight=keyword).keyword_weight == keyword


@pytest.mark.parametrize(("semantic", "keyword"), [(0.7, 0.4), (0.7, 0.2), (0, 0), (1, 1)])
def test_weights_that_do_not_sum_to_1_are_refused(semantic: float, keyword: float) -> None:
    said = faults(semantic_weight=semantic, keyword_weight=keyword)[""]
    assert f"semantic_weight {semantic:g} and keyword_weight {keyword:g} must sum to 1" in said


@pytest.mark.parametrize("mode", ["semantic", "keyword"])
def test_reranking_by_rrf_needs_two_searches(mode: str) -> None:
    assert f"needs mode 'hybrid', got mode '{mode}'" in faults(mode=mode, rerank="rrf")[""]


@pytest.mark.parametrize("way", [{"rerank": "rrf"}, {"fusion": "rrf"}])
def test_an_expanded_query_may_be_a_third_list_of_rrf(way: dict[str, str]) -> None:
    keyword = {"synonyms": {"bus": ["topic"]}, "expansion": "list"}
    assert settings(mode="hybrid", keyword=keyword, **way).keyword.expansion == "list"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"mode": "hybrid"}, "needs mode 'hybrid' with rerank 'rrf' or fusion 'rrf', got mode 'hybrid' with fusion 'w"),
        ({"mode": "keyword", "fusion": "rrf"}, "got mode 'keyword' with fusion 'rrf'"),
        ({"mode": "semantic"}, "got mode 'semantic'"),
        ({"mode": "hybrid", "rerank": "rrf", "keyword": {"expansion": "list"}}, "keyword.synonyms names none"),
    ],
)
def test_a_third_list_needs_rrf_and_synonyms(values: dict[str, Any], said: str) -> None:
    keyword = {"synonyms": {"bus": ["topic"]}, "expansion": "list"}
    assert said in faults(**{"keyword": keyword, **values})[""]


@pytest.mark.parametrize(
    ("mode", "fusion", "rerank", "scale"),
    [
        ("semantic", "weighted", "none", "cosine"),
        ("semantic", "rrf", "mmr", "cosine"),
        ("keyword", "weighted", "none", "bm25"),
        ("keyword", "weighted", "mmr", "bm25"),
        ("hybrid", "weighted", "none", "weighted"),
        ("hybrid", "rrf", "none", "rrf"),
        ("hybrid", "dbsf", "mmr", "dbsf"),
        ("hybrid", "weighted", "rrf", "rrf"),
        ("hybrid", "dbsf", "cross-encoder", "rerank"),
        ("keyword", "weighted", "cross-encoder", "rerank"),
    ],
)
def test_final_scores_have_a_scale_and_the_threshold_reads_them_only_where_it_is_fixed(
    mode: str, fusion: str, rerank: str, scale: str
) -> None:
    chosen = {"mode": mode, "fusion": fusion, "rerank": rerank}
    assert settings(**chosen).score_scale == scale
    if scale in ("cosine", "weighted", "rerank"):
        assert settings(**chosen, threshold_on="final").threshold_on == "final"
    else:
        said = faults(**chosen, threshold_on="final")[""]
        assert f"would compare the threshold with {scale} scores, which have no fixed scale" in said
        assert "use threshold_on: each, or fusion: weighted, or rerank: cross-encoder" in said


def test_grouping_takes_an_alias() -> None:
    assert (settings(group_by="url").group_by, settings(group_by="document_id").group_by) == (
        "source_url",
        "source_document_id",
    )


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "top_k": st.integers(1, 100),
            "threshold": st.floats(0, 1),
            "store": st.sampled_from([{"path": "a/b"}, {"url": "http://h:1"}, {}]),
            "embedding": st.sampled_from([{"provider": "cohere"}, {"provider": "python", "model": "a:b"}]),
            "metadata": st.fixed_dictionaries(
                {}, optional={"map": st.just({"url": "href"}), "required": st.just(["title"])}
            ),
            "vector_name": st.text(max_size=5),
            "filters": st.sampled_from(["module = a", {"any": [{"tags": ["a"]}, {"n": {"gte": 2.5}}]}, {"a.b": True}]),
            "abbreviations": st.just({"e.g.": "for example"}),
            "keyword": st.just({"synonyms": {"node.js": ["javascript"]}}),
        },
    )
)
def test_dumped_settings_are_read_back_the_same(values: dict[str, Any]) -> None:
    config = settings(**values)
    assert dump(RetrieverConfig.model_validate(dump(config))) == dump(config)
    assert not any(isinstance(value, Path) for value in dump(config)["store"].values())


class TestForeign:
    """A retriever of the user's own."""

    ALLOWED: ClassVar[dict[str, Any]] = {
        "store": {"path": "/s"}, "collection": "c", "metadata": {"map": {"title": "name"}}, "top_k": 3,
        "threshold": 0.2, "candidates": 7, "include_metadata": False,
    }  # fmt: skip

    def test_takes_what_is_not_settled_inside_of_it(self) -> None:
        made = RetrieverConfig.model_validate({"python": "m:f", **self.ALLOWED})
        assert (made.used_threshold, made.names_collection) == (0.2, True)
        assert set(dump(made)) == {"python", *self.ALLOWED} == set(FOREIGN_SETTINGS)

    @pytest.mark.parametrize("name", ["distance", "embedding", "vector_name"])
    def test_refuses_what_a_store_brings_along_by_name(self, name: str) -> None:
        default = RetrieverConfig().model_dump()[name]  # as it is by default, but said
        with pytest.raises(ValidationError, match=rf"{name} cannot be set for python 'm:f'.*leave it out"):
            RetrieverConfig.model_validate({"python": "m:f", name: default})

    def test_refuses_several_at_once(self) -> None:
        with pytest.raises(ValidationError, match=r"embedding, vector_name cannot be set .*leave them out"):
            RetrieverConfig.model_validate({"python": "m:f", "vector_name": "v", "embedding": {}})

    def test_takes_for_a_store_of_its_own_how_it_is_searched(self) -> None:
        made = RetrieverConfig.model_validate({"python": "m:f", "mode": "hybrid", "rerank": "mmr", "top_k": 3})
        assert dump(made)["mode"] == "hybrid"
        assert {"mode", "rerank"} <= set(dump(RetrieverConfig.model_validate(dump(made))))

    @pytest.mark.parametrize("target", ["", "m", ":f", "m:", " : ", "m f"])
    def test_needs_module_and_factory(self, target: str) -> None:
        with pytest.raises(ValidationError, match="expected 'module:factory'"):
            RetrieverConfig.model_validate({"python": target})

    def test_a_store_needs_the_name_of_its_collection(self) -> None:
        with pytest.raises(ValidationError, match="store names no collection"):
            RetrieverConfig.model_validate({"python": "m:f", "store": {"path": "/s"}})

    def test_has_no_threshold_but_one_that_is_given(self) -> None:
        made = RetrieverConfig.model_validate({"python": "m:f"})
        assert (made.used_threshold, made.names_collection) == (None, False)
        assert set(dump(made)) == {"python", "metadata", "top_k", "candidates", "include_metadata"}
        assert made.model_copy(update={"threshold": 0.4}).used_threshold == 0.4

    @pytest.mark.parametrize("given", [{}, ALLOWED, {"collection": "c"}, {"threshold": 0.3}])
    def test_settings_written_out_mean_the_same_again(self, given: dict[str, Any]) -> None:
        made = RetrieverConfig.model_validate({"python": "m:f", **given})
        again = RetrieverConfig.model_validate(dump(made))
        assert dump(again) == dump(made)
        assert (again.used_threshold, again.names_collection) == (made.used_threshold, made.names_collection)
