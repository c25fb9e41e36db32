"""Errors made on purpose, one at a time, in a copy of a tree: which of them does the kit see?"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

from tests.parity import running
from tests.parity.commands import COMMANDS
from tests.parity.comparing import Intended, differences

TOGETHER = 12
"""Commands that are run at once, where the likely ones saw nothing."""


@dataclass(frozen=True)
class Mutant:
    """An error: in a file, one text in place of another; `likely` commands are tried first."""

    name: str
    file: str
    old: str
    new: str
    _: KW_ONLY
    likely: Sequence[str] = ("small",)


M, S, F, SAMPLING = "evals/metrics", "evals/stats", "retrievers/search", "evals/sampling"
CELLS, GRID, COMPARED = "evals/grid/cells.py", ("grid-beacons",), ("compare",)
JUDGED, PEOPLE = ("judged-sample",), ("judged-people",)
MUTANTS: Sequence[Mutant] = (
    # Scores
    Mutant("ndcg-discount", f"{M}/ranking.py", "arange(2, grades.shape[1] + 2)", "arange(3, grades.shape[1] + 3)"),
    Mutant("mrr-rank", f"{M}/ranking.py", "/ _ranks(r, k)).max", "/ (_ranks(r, k) + 1)).max"),
    Mutant("map-rank", f"{M}/ranking.py", "/ _ranks(r, k), 0.0", "/ (_ranks(r, k) + 1), 0.0"),
    Mutant("top3-of-2", f"{M}/ranking.py", ".sum(axis=1) >= 3", ".sum(axis=1) >= 2", likely=["default"]),
    Mutant(
        "judged-relevant", "evals/collect/pool.py", "(*r.grades, *r.irrelevant)", "r.grades", likely=["keyword-deep"]
    ),
    Mutant("overlap-400", f"{M}/texts.py", "CHARACTERS = 40", "CHARACTERS = 400"),
    Mutant("duplicates-by-id", f"{M}/texts.py", ', r.by_key("normalised text", _normalised))', ")"),
    Mutant("verdict-rank", f"{M}/texts.py", "arange(1, verdicts.shape[1] + 1)", "arange(2, verdicts.shape[1] + 2)"),
    Mutant("above-0.6", f"{M}/scope.py", "HALF = 0.5", "HALF = 0.6"),
    Mutant("criterion-strict", f"{M}/criteria.py", "a <= b + TOLERANCE", "a < b - 0.1", likely=["criteria"]),
    # Evidence
    Mutant("half-0.6", "evals/golden/evidence.py", "HALF = 0.5", "HALF = 0.6"),
    Mutant("least-60", "evals/golden/evidence.py", "CHARACTERS = 30", "CHARACTERS = 60"),
    # Statistics
    Mutant("wilson-90%", f"{S}/intervals.py", "Z = 1.959963984540054", "Z = 1.6448536269514722", likely=GRID),
    Mutant("wilson-term", f"{S}/intervals.py", "extra / (4 * n)", "extra / (2 * n)", likely=GRID),
    Mutant("audit-90%", "evals/golden/audit/power.py", "0.8416212335729143", "1.28", likely=["golden-audit"]),
    Mutant("signs-one-sided", f"{S}/paired.py", "2 * float(beyond", "1 * float(beyond", likely=COMPARED),
    Mutant("signs-drawn", f"{S}/paired.py", "EXACT = 30", "EXACT = 3", likely=COMPARED),
    Mutant("ties-rise", f"{S}/paired.py", "int((differences > 0)", "int((differences >= 0)", likely=COMPARED),
    Mutant("at-threshold", f"{S}/abstention.py", 'side="left"', 'side="right"', likely=GRID),
    Mutant("set-80%", f"{S}/best.py", "LEVEL = 0.95", "LEVEL = 0.8", likely=GRID),
    Mutant("unseen-wins", f"{S}/best.py", "- open_share * times * loss)", "+ open_share * times * loss)", likely=GRID),
    # Search
    Mutant("bm25-unit", f"{F}/sides.py", "terms / best", "terms", likely=["mode-hybrid-none-weighted"]),
    Mutant("rrf-rank", f"{F}/sides.py", "constant + column", "constant + column - 1", likely=["mode-hybrid-none-rrf"]),
    Mutant("dbsf-deviation", f"{F}/sides.py", "(len(values) - 1)", "len(values)", likely=["mode-hybrid-none-dbsf"]),
    Mutant("ties-by-place", f"{F}/ranking.py", "names.get(index, nameless)))", "-index))"),
    Mutant(
        "mmr-weight",
        "retrievers/rerank/reranking.py",
        "(1 - lambda_) * closest",
        "closest",
        likely=["mode-semantic-mmr"],
    ),
    Mutant("confidence-0.35", f"{F}/confidence.py", "MARGIN = 0.25", "MARGIN = 0.35", likely=["search"]),
    # Cells
    Mutant("cell-threshold-exclusive", CELLS, "found & (read >= ", "found & (read > ", likely=["beacons"]),
    Mutant("cell-group-keeps-last", CELLS, "repeated, order[:, 1:]", "repeated, order[:, :-1]", likely=["group-by"]),
    Mutant("shared-beginning", CELLS, "lengths <= alike[", "lengths <= 1 + alike[", likely=["grid-fusions"]),
    # Judge
    Mutant("sample-start", f"{SAMPLING}/order.py", 'f"{seed}\\0', 'f"{seed + 1}\\0', likely=JUDGED),
    Mutant(
        "correction-off",
        f"{SAMPLING}/corrected.py",
        "+ self.foretold.mean(axis=0)\n        return means",
        "+ self.foretold[self.judged].mean(axis=0)\n        return means",
        likely=JUDGED,
    ),
    Mutant("weight-unshrunk", f"{SAMPLING}/corrected.py", "1 - chance / explained", "1.0", likely=JUDGED),
    Mutant("people-rank", "evals/judge/precision.py", "useful / rank", "useful / (rank + 1)", likely=PEOPLE),
    # Comparison, indexing, tracking
    Mutant("chunk-identity", "retrievers/indexing/chunking.py", "(page.source_url, path, text)", "(path, text)"),
    Mutant("four-digits", "evals/tracking/values.py", "{value:.6g}", "{value:.3g}", likely=["tracked"]),
)


def try_mutants(tree: Path, only: Sequence[str] | None, old: Mapping[str, Any], folder: Path) -> int:
    """Run commands with each error until one differs; print which are seen.

    Args:
        tree: Whose code is changed, in a copy.
        only: Names of the errors; all if left out.
        old: The recorded answers.
        folder: Where to work.

    Returns:
        1 if any is not seen.
    """
    copy = folder / "tree"
    for part in ("evals", "retrievers"):
        shutil.copytree(tree / part, copy / part)
    (copy / "datasets").symlink_to(tree / "datasets")
    tried = [one for one in MUTANTS if not only or one.name in only]
    seen = 0
    for number, mutant in enumerate(tried):
        file = copy / mutant.file
        text = file.read_text("utf-8")
        if text.count(mutant.old) != 1:
            print(f"{mutant.name}: {mutant.file} holds its text {text.count(mutant.old)} times", flush=True)  # noqa: T201
            continue
        file.write_text(text.replace(mutant.old, mutant.new), "utf-8")
        told = next(_seen(mutant, copy, old, folder / str(number)), None)
        shutil.copy2(tree / mutant.file, file)
        shutil.rmtree(folder / str(number), ignore_errors=True)
        seen += told is not None
        print(f"{mutant.name}: {f'seen, {told}' if told else 'NOT SEEN'}", flush=True)  # noqa: T201
    print(f"{seen} of {len(tried)} seen")  # noqa: T201
    return int(seen < len(tried))


def _seen(mutant: Mutant, tree: Path, old: Mapping[str, Any], folder: Path) -> Iterator[str]:
    others = [one.name for one in COMMANDS if one.world != "cranfield" and one.name not in mutant.likely]
    batches = [list(mutant.likely), *(others[start : start + TOGETHER] for start in range(0, len(others), TOGETHER))]
    for number, names in enumerate(batches):
        try:
            new = running.answers(tree, names, None, folder / str(number))
        except running.BrokenError as broken:
            yield str(broken)
            return
        for name in names:
            if found := differences(name, old[name], {**new[name], "seconds": 0}, Intended()):
                yield f"{name}: {found[0]}"
