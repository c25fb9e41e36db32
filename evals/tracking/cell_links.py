"""Links from the page of a grid to MLflow's comparisons of its cells, as Markdown. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from evals.grid.children import Child
from evals.tracking.addresses import plots_page

# Most cells of a link; more make the page slow, and the description too long for MLflow.
MOST_CELLS = 50
# Characters of a tag's value that MLflow keeps.
MOST_CHARACTERS = 8_000


def with_cell_links(
    description: str, experiment_id: str, children: Sequence[Child], runs: Mapping[int, str], side_by_side: str
) -> str:
    """Return a grid's description with links behind its first paragraph; as it is where they would make it too long.

    Args:
        description: The verdict, then what it rests on.
        experiment_id: Id of the grid's experiment.
        children: The cells that have a run.
        runs: Cell to the id of its run.
        side_by_side: Page that shows two of them query by query, relative to the server; empty where there is none.
    """
    groups = {"all": children[:MOST_CELLS], **_by_retrieval(children)} if len(children) > 1 else {}
    links = [
        f"[{name}]({plots_page('', experiment_id, [runs[child.cell] for child in cells])})"
        for name, cells in groups.items()
    ]
    lines = [f"Cells by threshold and top_k: {' · '.join(links)}"] if links else []
    lines += [f"[The recommended cell beside another, query by query]({side_by_side})"] if side_by_side else []
    verdict, _, rest = description.partition("\n\n")
    linked = "\n\n".join((verdict, *lines, rest))
    return linked if len(linked) <= MOST_CHARACTERS else description


def _by_retrieval(children: Sequence[Child]) -> dict[str, Sequence[Child]]:
    """Return the cells of each retrieval that has several, by the settings that tell them apart; none of one alone."""
    settings = [
        {name: value for name, value in child.parameters.items() if not name.startswith("cell.")} for child in children
    ]
    telling = (
        [name for name in settings[0] if len({str(setting.get(name)) for setting in settings}) > 1] if settings else []
    )
    groups: dict[str, list[Child]] = {}
    for child, setting in zip(children, settings, strict=True):
        groups.setdefault(_label(setting, telling), []).append(child)
    if len(groups) == 1:
        return {}
    return {name: cells for name, cells in groups.items() if 1 < len(cells) <= MOST_CELLS}


def _label(settings: Mapping[str, Any], telling: Sequence[str]) -> str:
    values = {name: settings.get(name) for name in telling}
    return " ".join(
        str(value) if isinstance(value, str) else f"{name.rpartition('.')[2]} {value}" for name, value in values.items()
    )
