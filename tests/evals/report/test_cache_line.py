from evals.report.text import cache_line


def test_the_caches_that_were_asked_are_named_with_their_rates() -> None:
    caches = {"embedding": (44, 88), "result": (0, 0), "judge": (1200, 1600)}
    assert cache_line(caches) == "From caches: query vectors 44 of 88 (50%), verdicts 1,200 of 1,600 (75%)"


def test_no_line_where_none_was_asked() -> None:
    assert cache_line({"embedding": (0, 0)}) == cache_line({}) == ""
