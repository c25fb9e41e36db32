"""The report that is committed as a baseline: what a comparison reads, and nothing of this machine."""

import json

from evals.baseline import CHUNKS, committed
from evals.report.parsing import parse
from tests.support.results import facts, report


def test_a_committed_report_compares_as_the_whole_one_and_names_no_folder() -> None:
    whole = report(known=facts(dataset="/home/somebody/golden.jsonl"))
    plain = committed(whole)
    assert "/home/somebody" not in json.dumps(plain) and plain["facts"]["dataset"] == "golden.jsonl"
    read = parse(json.dumps(plain), "baseline")
    assert read.metrics == whole.metrics
    assert [(row.id, row.fingerprint, row.scores) for row in read.queries] == [
        (row.id, row.fingerprint, row.scores) for row in whole.queries
    ]
    assert max(len(row.retrieved) for row in read.queries) <= CHUNKS
