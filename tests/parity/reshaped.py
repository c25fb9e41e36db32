"""A report of today in the shape of the recorded ones, so that the two are compared value by value."""

from collections.abc import Mapping, Sequence
from typing import Any

Json = Any
OF_A_SLICE = ("value", "ci_low", "ci_high", "n", "n_failed")
OF_A_CHOICE = ("margin", "note")


def as_recorded(document: Json) -> Json:
    """Return a report of schema version 2 as one of version 1, as far as it holds that; anything else as it is."""
    if not isinstance(document, Mapping) or document.get("schema_version") != 2 or "queries" not in document:
        return document
    made = dict(document)
    chunks = made.pop("chunks", {})
    columns = [(name, made.pop(name, {})) for name in ("scores", "proxies")]
    made["queries"] = [_row(row, place, columns, chunks) for place, row in enumerate(made["queries"])]
    made["texts"] = {
        hit["chunk_id"]: chunks[hit["chunk_id"]]["text"] for row in made["queries"] for hit in row["retrieved"]
    }
    made["validation"] = _validation([row["outcome"] for row in made["queries"]])
    made["metrics"] = _summaries(made["metrics"])
    made["slices"] = [
        part | {"metrics": {name: {key: one[key] for key in OF_A_SLICE} for name, one in part["metrics"].items()}}
        for part in made.get("slices", [])
    ]
    if collection := made["facts"].get("collection"):
        content = collection.get("content", {})
        rest = {name: value for name, value in collection.items() if name != "content"}
        made["facts"] = {**made["facts"], "collection": rest | content}
    if made.get("baseline"):
        made["baseline"] = _compared(made["baseline"])
    if made.get("judge"):
        made["judge"] = _judge(made["judge"])
    if made.get("grid"):
        made["grid"] = _grid(made["grid"])
    return made


def _row(row: Json, place: int, columns: Sequence[tuple[str, Json]], chunks: Json) -> Json:
    of_row = {
        kind: {name: column[place] for name, column in by_metric.items() if column[place] is not None}
        for kind, by_metric in columns
    }
    hits = {kind: [_hit(hit, chunks) for hit in row.get(kind, [])] for kind in ("retrieved", "best_below_threshold")}
    return {**row, **of_row, **hits}


def _validation(outcomes: Sequence[str]) -> Json:
    passed, unlabelled = outcomes.count("SUCCESS"), outcomes.count("UNLABELLED")
    decided = len(outcomes) - unlabelled
    made = {"total": len(outcomes), "passed": passed, "failed": decided - passed, "unlabelled": unlabelled}
    return made | {"pass_rate": passed / decided if decided else None}


def _hit(hit: Json, chunks: Json) -> Json:
    chunk = chunks[hit["chunk_id"]]
    about = {name: chunk[name] for name in ("source", "breadcrumb", "heading")}
    return {**hit, **about, "preview": " ".join(chunk["text"].split())[:200]}


def _summaries(by_metric: Json) -> Json:
    return {name: {key: value for key, value in one.items() if key != "metric"} for name, one in by_metric.items()}


def _compared(section: Json) -> Json:
    return section | {
        "differences": [_difference(one) for one in section["differences"]],
    }


def _difference(one: Json) -> Json:
    counts = {name: one[name] for name in ("wins", "ties", "losses")}
    return {
        "metric": one["metric"], "other": one["baseline"], "this": one["other"],
        "difference": one["other"] - one["baseline"], "ci_low": one["low"], "ci_high": one["high"],
        "n": sum(counts.values()), **counts,
    }  # fmt: skip


def _judge(judge: Json) -> Json:
    made = {name: judge[name] for name in ("usage", "incomplete")}
    made["sample"] = None if judge["drawn"] is None else {"drawn": judge["drawn"]}
    return made | {"trust": {"agreement": {"n_verdicts": judge["compared"], "disagreements": judge["disagreements"]}}}


def _grid(grid: Json) -> Json:
    kept = ("axes", "ranking", "cells")
    made = {name: grid[name] for name in kept} | {"metrics": grid["metrics"], "choice": None, "chosen": None}
    made["configurations"] = [one | {"metrics": _summaries(one["metrics"])} for one in grid["configurations"]]
    if choice := grid["choice"]:
        standings = choice["standings"]
        made["chosen"] = choice["recommended"]["cell"]
        made["choice"] = {name: choice[name] for name in OF_A_CHOICE} | {
            "explanation": grid["explanation"][:3],
            "cells": grid["cells"]["count"],
            "best": standings[0]["cell"],
            "recommended": choice["recommended"]["cell"],
            "set": [one["cell"] for one in standings if one["in_set"]],
            "standings": [_standing(one, place) for place, one in enumerate(standings, 1)],
            "held_out": grid["held_out"],
        }
    return made


def _standing(one: Json, place: int) -> Json:
    rest = {name: value for name, value in one.items() if name not in ("low", "high")}
    return rest | {"place": place, "ci_low": one["low"], "ci_high": one["high"]}
