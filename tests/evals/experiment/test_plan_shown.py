from typing import Any

import pytest

from evals.experiment.plan import render_plan, retrieval_calls
from evals.judge.plan import JudgePlan, Share
from retrievers.config import RetrieverConfig


def share(metric: str, questions: int, cached: int) -> Share:
    return Share(metric=metric, questions=questions, cached=cached, tokens_in=1_000_000, tokens_out=2_500)


def shown(stopped: str = "", **changes: Any) -> str:
    values: dict[str, Any] = {
        "model": "cohere:command",
        "shares": (share("ragas/llm_context_precision", 1200, 200), share("ragas/llm_context_recall", 225, 0)),
        "measured_answers": True,
        "usd": 5.05,
        "seconds": 153.2,
    }
    return render_plan([JudgePlan(**(values | changes))], ["88 query embeddings"], limited=stopped, width=200)


def row(text: str, start: str) -> list[str]:
    return next(line for line in text.split("\n") if line.strip().startswith(start)).split()[1:]


def test_what_every_metric_needs_and_all_together() -> None:
    text = shown()
    assert row(text, "ragas/llm_context_precision") == ["1,200", "200", "1,000", "1,000,000", "2,500"]
    assert row(text, "all") == ["1,425", "200", "1,225", "2,000,000", "5,000"]
    assert text.startswith("Retrieval\n  88 query embeddings\nJudge cohere:command\n")


OF_ALL: dict[str, Any] = {"queries": 225, "most": 1125, "most_usd": 4.0}


def test_what_the_sample_leaves_out() -> None:
    assert "judge.sample" not in shown(**OF_ALL, drawn=225)
    assert (
        "The table counts the 30 of 225 in-scope queries of judge.sample; all would take 1,125 calls, about 4.00 USD."
        in (shown(**OF_ALL, drawn=30))
    )
    assert "of judge.sample, as many as an interval needs where 0.1 is fewer; all" in shown(
        **OF_ALL, drawn=30, sample=0.1
    )
    assert (
        "auto judges at least its first round of 30 of 225 in-scope queries, which the table counts, and at most "
        in (shown(**OF_ALL, drawn=30, sample="auto"))
    )


def test_held_out_queries_are_counted_apart() -> None:
    assert "held-out" not in shown()
    text = render_plan(
        [JudgePlan(model="m", shares=(), measured_answers=True)],
        [],
        held_out=1234,
        width=200,
    )
    assert "The held-out queries take at most 1,234 calls more, on the chosen cell alone;" in text


def test_what_is_measured_and_what_is_not() -> None:
    assert "tokens out are an average of stored answers." in shown()
    assert "tokens out are a guess." in shown(measured_answers=False)
    assert "Tokens in" not in shown(shares=(share("m", 3, 3),))


@pytest.mark.parametrize(("seconds", "said"), [(8.4, "8 s"), (153.2, "2 min 33 s"), (7260, "2 h 1 min"), (0, "0 s")])
def test_cost_and_time(seconds: float, said: str) -> None:
    assert f"Cost: about 5.05 USD. Time at the given limits: about {said}, if a call takes 2 s." in shown(
        seconds=seconds
    )
    assert "Cost: no price for cohere:command in judge.prices." in shown(usd=None)


def test_a_budget_that_is_too_small_is_said_so() -> None:
    assert "The run would stop early: the budget holds 3 calls of 5." in shown(stopped="the budget holds 3 calls of 5")
    assert "stop early" not in shown()


def test_without_a_judge() -> None:
    text = render_plan([], ["1 query embeddings"], width=120)
    assert text == "Retrieval\n  1 query embeddings\nJudge\n  none (judge.model): no LLM-graded metric, no call\n"


def test_what_retrieval_calls() -> None:
    local = RetrieverConfig.model_validate({})
    assert retrieval_calls(local, 88, 0, 0) == [
        "88 query embeddings by wordllama:l2_supercat_256 (local, free): 88 for candidates (this plan has made them), "
        "0 to measure latency, 0 to repeat queries"
    ]
    hosted = RetrieverConfig.model_validate(
        {"embedding": {"provider": "cohere"}, "rerank": "cross-encoder", "cross_encoder": {"provider": "cohere"}}
    )
    embeddings, reranking = retrieval_calls(hosted, 88, 1200, 176)
    assert embeddings.startswith("1,464 query embeddings by cohere:embed-english-v3.0: 88 for candidates")
    assert reranking == "1,464 rerank calls by cohere:rerank-v3.5, each of up to 100 chunks"
