"""Links to source files, which a terminal opens."""

import re
from pathlib import Path
from typing import Any

PLACE = re.compile(r"(?P<path>[^:]+):(?P<line>\d+)(-\d+)?")


def source_link(source: str, config: dict[str, Any]) -> str:
    """Return the address of a chunk's first line (`file:///…#L8`); empty where its file is not known.

    Args:
        source: `path:start-end` of the chunk, the path below the folder of the source pages.
        config: The configuration of the run.
    """
    folder = (config.get("sources") or {}).get("dir")
    match = PLACE.fullmatch(source)
    # An address of a site, or a path that leads out of the folder, is no file of it.
    if not folder or match is None or match["path"].startswith("/") or ".." in Path(match["path"]).parts:
        return ""
    return f"{(Path(folder).absolute() / match['path']).as_uri()}#L{match['line']}"
