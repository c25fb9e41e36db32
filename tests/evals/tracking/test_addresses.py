import pytest

from evals.tracking.addresses import comparison_page, run_page, runs_page, server_of


@pytest.mark.parametrize(
    ("uri", "server"),
    [
        (None, "http://127.0.0.1:5000"),
        ("sqlite:///runs.db", "http://127.0.0.1:5000"),
        ("https://mlflow.example/", "https://mlflow.example"),
        ("http://me:s3cret@host:81", "http://***@host:81"),
    ],
)
def test_the_server_is_that_of_the_store_without_its_password(uri: str | None, server: str) -> None:
    assert server_of(uri) == server


def test_pages_of_runs() -> None:
    assert runs_page("http://host", "7") == "http://host/#/experiments/7/evaluation-runs"
    assert runs_page("http://host", None) == "http://host/#/experiments"
    assert run_page("http://host", "7", "abc") == "http://host/#/experiments/7/runs/abc"
    compared = "http://host/#/experiments/7/runs/abc/evaluations?compareToRunUuid=def"
    assert comparison_page("http://host", "7", "abc", "def") == compared
