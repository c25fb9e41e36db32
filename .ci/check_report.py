"""Does the report of the default run hold together, and does its verdict agree with make's exit code?"""

import json
import sys
from pathlib import Path

report = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
make_failed = sys.argv[2] != "0"
assert report["schema_version"] == 2, report["schema_version"]
assert len(report["queries"]) == 88, len(report["queries"])
assert len(report["metrics"]) > 60, sorted(report["metrics"])
assert len(report["criteria"]) > 10, report["criteria"]
assert report["metrics"]["determinism/rate"]["value"] == 1, report["metrics"]["determinism/rate"]
assert report["passed"] != make_failed, (report["passed"], sys.argv[2])
sys.stdout.write(f"{sys.argv[1]}: {len(report['metrics'])} metrics, passed: {report['passed']}\n")
