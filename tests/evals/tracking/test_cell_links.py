"""Links to MLflow's comparisons of a grid's cells."""

import json
from urllib.parse import parse_qs

from evals.grid.children import Child
from evals.tracking.cells import MOST_CHARACTERS, with_cell_links

TEXT = "45 of 88 queries pass.\n\n88 queries, hybrid"


def cell(number: int, mode: str, lambda_: float = 0.7) -> Child:
    parameters = {
        "cell.top_k": number,
        "retriever.mode": mode,
        "retriever.rerank": "none",
        "retriever.mmr_lambda": lambda_,
    }
    return Child(name=f"{mode} {number}", cell=number, parameters=parameters, metrics={}, roles=())


def links(text: str) -> dict[str, list[str]]:
    """Name of each link to plots, and the runs that it shows."""
    parts = (part.partition("](") for part in text.split("[")[1:] if "#/compare-runs?" in part)
    found = {name: parse_qs(rest.partition(")")[0].partition("?")[2]) for name, _, rest in parts}
    assert all(json.loads(queries["experiments"][0]) == ["7"] for queries in found.values())
    return {name: json.loads(queries["runs"][0]) for name, queries in found.items()}


def linked(children: list[Child], side_by_side: str = "", text: str = TEXT) -> str:
    return with_cell_links(text, "7", children, {child.cell: f"r{child.cell}" for child in children}, side_by_side)


def test_all_cells_and_those_of_each_retrieval_that_has_several() -> None:
    text = linked([cell(1, "semantic"), cell(2, "hybrid"), cell(3, "hybrid"), cell(4, "keyword")])
    assert links(text) == {"all": ["r1", "r2", "r3", "r4"], "hybrid": ["r2", "r3"]}
    verdict, cells, rest = text.split("\n\n")
    assert (verdict, rest) == tuple(TEXT.split("\n\n")) and cells.startswith("Cells by threshold and top_k: [all](")


def test_retrievals_are_named_by_what_tells_them_apart() -> None:
    text = linked([cell(n, "hybrid", 0.3 if n < 3 else 0.7) for n in range(1, 5)])
    assert links(text) == {
        "all": ["r1", "r2", "r3", "r4"],
        "mmr_lambda 0.3": ["r1", "r2"],
        "mmr_lambda 0.7": ["r3", "r4"],
    }


def test_one_retrieval_has_one_link_and_one_cell_none() -> None:
    assert list(links(linked([cell(1, "hybrid"), cell(2, "hybrid")]))) == ["all"]
    assert linked([cell(1, "hybrid")]) == linked([]) == TEXT


def test_two_cells_query_by_query() -> None:
    assert "[The recommended cell beside another, query by query](#/experiments/7/a)" in linked([], "#/experiments/7/a")


def test_what_mlflow_would_cut_is_left_as_it_was() -> None:
    long = TEXT.ljust(MOST_CHARACTERS - 10)
    assert linked([cell(1, "hybrid"), cell(2, "hybrid")], text=long) == long
    many = linked([cell(n, "hybrid" if n % 2 else "semantic") for n in range(90)])
    assert len(links(many)["all"]) == 50 and len(many) <= MOST_CHARACTERS
