from typing import Any

import pytest

from evals.judge.ask.keys import verdict_key

ASKED: dict[str, Any] = {
    "provider": "cohere",
    "model": "command",
    "parameters": {"temperature": 0.0, "seed": 0},
    "prompt": "Was it useful? ü \ud800",
    "schema": '{"title": "Verdict"}',
    "ragas": "0.4.3",
}


@pytest.mark.parametrize(
    "changed",
    [
        {"provider": "openai"},
        {"model": "command-r"},
        {"parameters": {"temperature": 0.5, "seed": 0}},
        {"parameters": {"temperature": 0.0, "seed": 0, "base_url": "http://localhost:1"}},
        {"prompt": "Was it useful?"},
        {"schema": "{}"},
        {"ragas": "0.4.4"},
        {"provider": "cohere:command", "model": ""},
    ],
)
def test_all_that_an_answer_depends_on_is_in_its_key(changed: dict[str, Any]) -> None:
    assert verdict_key(**ASKED) == verdict_key(**ASKED)
    assert len(verdict_key(**ASKED)) == 32
    assert verdict_key(**ASKED) != verdict_key(**{**ASKED, **changed})


def test_the_order_of_parameters_does_not_matter() -> None:
    turned = {"seed": 0, "temperature": 0.0}
    assert verdict_key(**ASKED) == verdict_key(**{**ASKED, "parameters": turned})
