"""Maps of a grid hold its own numbers, and mark what was chosen."""

from dataclasses import replace

import numpy as np
import pytest

from evals.grid.measure import Swept
from evals.report.figures.canvas import Picture
from evals.report.figures.heatmaps import Plane, edges, heat_maps


@pytest.fixture(scope="module")
def maps(swept: Swept) -> dict[str, Picture]:
    return heat_maps(swept)


def test_there_is_one_of_the_objective_for_each_configuration_and_one_of_each_other_metric(
    maps: dict[str, Picture],
) -> None:
    assert set(list(maps)[:2]) == {"heat_map_semantic", "heat_map_hybrid_weighted"}
    assert list(maps)[2:] == [
        "heat_map_scope_false_abstention",
        "heat_map_ragas_id_context_precision",
        "heat_map_ragas_id_context_recall",
        "heat_map_scope_false_answer",
        "heat_map_cost_context_tokens",
    ]


def test_every_cell_is_where_its_threshold_and_cut_are(swept: Swept, maps: dict[str, Picture]) -> None:
    for place, name in enumerate(("heat_map_semantic", "heat_map_hybrid_weighted")):
        image = maps[name].figure.axes[0].images[0].get_array()
        assert image is not None and image.shape == (10, 5)
        for cell in swept.grid.cells():
            if cell.configuration == place:
                row, column = round((cell.threshold or 0) * 10), cell.top_k - 1
                assert image[row, column] == swept.ranking.values[cell.index]


def test_all_configurations_share_one_scale_of_colours(swept: Swept, maps: dict[str, Picture]) -> None:
    scales = {picture.figure.axes[0].images[0].get_clim() for picture in list(maps.values())[:2]}
    assert scales == {(np.nanmin(swept.ranking.values), np.nanmax(swept.ranking.values))}


@pytest.mark.parametrize(("value", "scale"), [(0.0, (0, 1)), (0.4, (0, 0.4)), (350.0, (0, 350)), (-0.2, (-0.2, 0))])
def test_values_that_are_all_the_same_have_a_scale_from_0(
    swept: Swept, value: float, scale: tuple[float, float]
) -> None:
    ranking = replace(swept.ranking, values=np.full_like(swept.ranking.values, value))
    found = heat_maps(replace(swept, ranking=ranking))["heat_map_semantic"]
    assert found.figure.axes[0].images[0].get_clim() == scale


def test_the_recommended_cell_is_marked(swept: Swept, maps: dict[str, Picture]) -> None:
    assert swept.choice is not None
    cell = swept.grid.cell(swept.choice.recommended.cell)
    axes = next(iter(maps.values())).figure.axes[0]
    assert axes.get_title().endswith(swept.grid.configurations[cell.configuration].name)
    star = axes.collections[-1].get_offsets()
    assert np.asarray(star).tolist() == [[cell.top_k - 1, round((cell.threshold or 0) * 10)]]


def test_cells_that_break_a_constraint_are_greyed(swept: Swept, maps: dict[str, Picture]) -> None:
    veil = maps["heat_map_semantic"].figure.axes[0].images[1].get_array()
    assert veil is not None
    allowed = np.zeros(len(swept.grid), dtype=bool)
    allowed[list(swept.ranking.order)] = True
    assert np.array_equal(np.ma.getmaskarray(veil), Plane(result=swept, configuration=0).of(allowed))
    assert "greyed" in maps["heat_map_semantic"].caption


def test_the_outline_of_a_set_goes_around_it() -> None:
    one = np.zeros((3, 3), dtype=np.bool_)
    one[1, 2] = True
    assert sorted(map(sorted, edges(one))) == sorted(
        map(
            sorted,
            [
                [(1.5, 0.5), (2.5, 0.5)],
                [(1.5, 1.5), (2.5, 1.5)],
                [(1.5, 0.5), (1.5, 1.5)],
                [(2.5, 0.5), (2.5, 1.5)],
            ],
        )
    )
    assert edges(np.zeros((2, 2), dtype=np.bool_)) == []
    assert len(edges(np.ones((2, 3), dtype=np.bool_))) == 10


def test_cells_that_are_not_ranked_have_none(swept: Swept) -> None:
    assert heat_maps(replace(swept, choice=None)) == {}
