"""Fail when a distribution is installed that requirements.lock does not name at that version."""

import re
import sys
from importlib.metadata import distributions
from pathlib import Path

OWN = {"retrieval-evals", "pip", "uv"}

locked = set(re.findall(r"^([a-z0-9-]+)==(\S+)", Path("requirements.lock").read_text(encoding="utf-8"), re.MULTILINE))
installed = {(re.sub(r"[-_.]+", "-", each.name).lower(), each.version) for each in distributions()}
strays = {name: version for name, version in installed - locked if name not in OWN}
if strays:
    sys.exit(f"installed, but not as requirements.lock has it: {strays}; run `make lock`")
sys.stdout.write(f"{len(installed)} distributions, all from requirements.lock\n")
