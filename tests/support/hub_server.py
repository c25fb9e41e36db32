"""The hub of Hugging Face on the loopback, as far as loading a public dataset of one commit asks it."""

from collections.abc import Mapping

from tests.support.loopback import LoopbackServer, Reply, Request

COMMIT = "a" * 40


class HubServer(LoopbackServer):
    """A hub with one dataset, `someone/queries`, whose files are given by name.

    Protocol: https://huggingface.co/docs/hub/api, as huggingface_hub 1 and datasets 4 speak it.
    """

    name = "someone/queries"

    def __init__(self, files: Mapping[str, bytes]) -> None:
        super().__init__()
        self.files = files

    def answer(self, request: Request) -> Reply:
        api, files = f"/api/datasets/{self.name}", f"/datasets/{self.name}/resolve/{COMMIT}/"
        if request.path == f"{api}/revision/{COMMIT}":
            siblings = [{"rfilename": name} for name in self.files]
            return Reply.json({"id": self.name, "sha": COMMIT, "siblings": siblings, "tags": [], "private": False})
        if request.path.startswith((f"{api}/tree/{COMMIT}", f"{api}/paths-info/{COMMIT}")):
            return Reply.json([{"type": "file", "path": n, "size": len(b), "oid": "0"} for n, b in self.files.items()])
        body = self.files.get(request.path.removeprefix(files))
        if body is None:
            return Reply(status=404, headers={"X-Error-Code": "EntryNotFound"})
        facts = {"X-Repo-Commit": COMMIT, "ETag": f'"{len(body)}"', "X-Linked-Size": str(len(body))}
        return Reply(body=b"" if request.method == "HEAD" else body, content_type="text/plain", headers=facts)
