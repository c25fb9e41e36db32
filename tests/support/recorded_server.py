"""A server that answers from the recordings of a real Qdrant 1.18.3, as one collection in some state."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.loopback import LoopbackServer, Reply, Request
from tests.support.qdrant_rules import recorded


class RecordedServer(LoopbackServer):
    """A server with one collection, asked under any name.

    Args:
        info: Name of the recording of the collection's properties.
        points: Its first points, as a scroll gives them.
        changed: Properties that differ from the recording, nested as they are there.
        **others: Recordings for `cluster`, `shards`, `aliases`, `root`, each by its name.
    """

    def __init__(
        self,
        info: str,
        points: Sequence[Mapping[str, Any]] = (),
        changed: Mapping[str, Any] | None = None,
        **others: str,
    ) -> None:
        super().__init__()
        self._info = merged(recorded(info)["answer"]["result"], changed or {})
        self._points = points
        names = {"cluster": "cluster", "shards": "cluster-shards", "aliases": "auth-scoped-aliases", "root": "root"}
        self._others = names | others

    def answer(self, request: Request) -> Reply:
        _, root, *rest = request.path.split("/")
        action = "/".join(rest[1:])
        if root == "collections" and action == "cluster":
            return self._recorded("shards")
        if root != "collections":
            return self._recorded({"": "root"}.get(root, root))
        results: Mapping[str, Any] = {
            "": self._info,
            "exists": {"exists": True},
            "points/count": {"count": self._info["points_count"]},
            "points": self._points,
            "points/query": {"points": [{"id": point["id"], "version": 0, "score": 0.0} for point in self._points]},
            "points/scroll": {"points": self._points, "next_page_offset": None},
        }
        return Reply.json({"result": results[action], "status": "ok", "time": 0.0})

    def _recorded(self, name: str) -> Reply:
        record = recorded(self._others[name])
        answer = record["answer"]
        if isinstance(answer, str):
            return Reply(status=record["status"], body=answer.encode(), content_type="text/plain")
        return Reply.json(answer, record["status"])


def merged(known: Any, changed: Any) -> Any:
    """Return nested properties with some replaced."""
    if not (isinstance(known, dict) and isinstance(changed, Mapping)):
        return changed
    return {**known, **{key: merged(known.get(key), value) for key, value in changed.items()}}
