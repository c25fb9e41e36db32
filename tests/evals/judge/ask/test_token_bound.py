from evals.judge.ask.token_bound import MARGIN, TEMPLATE, Bound
from retrievers.embedding.tokens import count_tokens

ENGLISH = "The arm reaches its pose by way of the joints. " * 20
CHINESE = "机械臂通过关节到达姿态。" * 20


def test_before_any_answer_a_token_is_taken_for_each_byte() -> None:
    assert Bound(2048).most(CHINESE) == (len(CHINESE.encode()) + TEMPLATE, 2048)
    assert Bound(2048).most("\ud800")[0] > TEMPLATE


def test_what_a_server_counts_is_learnt() -> None:
    bound = Bound(2048)
    bound.learn(ENGLISH, (2 * count_tokens(ENGLISH), 50))
    bound.learn(ENGLISH, (count_tokens(ENGLISH), 50))  # the largest ratio stays
    read, written = bound.most(CHINESE)
    assert 0 <= read - 2 * MARGIN * count_tokens(CHINESE) < 1 and written == 2048


def test_a_server_that_counts_fewer_tokens_than_we_do_or_none_changes_nothing() -> None:
    bound = Bound(2048)
    bound.learn(ENGLISH, (0, 0))
    assert bound.most(ENGLISH)[0] >= count_tokens(ENGLISH)


def test_an_answer_beyond_its_limit_raises_it() -> None:
    bound = Bound(100)
    bound.learn(ENGLISH, (300, 250))
    assert bound.most(ENGLISH)[1] == 250
