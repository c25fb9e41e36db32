"""The part of MLflow's REST interface that a run uses, on the loopback, with refusals on demand."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


class MlflowServer:
    """Answers every request; `refuse` names the end of the paths that are answered with 400.

    `errors` maps other ends of paths to their answers, `once` to answers that are given once.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.refuse: tuple[str, ...] = ()
        self.errors: dict[str, tuple[int, object]] = {}
        self.once: dict[str, tuple[int, object]] = {}
        self.requests: list[tuple[str, dict[str, Any]]] = []

    @property
    def statuses(self) -> list[str]:
        """The statuses the run was given, in order."""
        return [body["status"] for path, body in self.requests if path.endswith("runs/update") and "status" in body]

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, object]:
        self.requests.append((path, body))
        if path.endswith(self.refuse or ("nothing",)):
            return 400, {"error_code": "INVALID_PARAMETER_VALUE", "message": "refused as the test wants it"}
        for end in [end for end in self.once if path.endswith(end)]:
            return self.once.pop(end)
        for end, error in self.errors.items():
            if path.endswith(end):
                return error
        experiment = {"experiment_id": "1", "name": "x", "artifact_location": "mlflow-artifacts:/1"}
        run = {"info": {"run_id": "r1", "run_uuid": "r1", "experiment_id": "1", "status": "RUNNING", "start_time": 1}}
        if path.endswith("runs/update"):
            return 200, {"run_info": run["info"]}
        return 200, {"experiment": experiment, "run": {**run, "data": {}}}


@contextmanager
def mlflow_server() -> Iterator[MlflowServer]:
    """Yield a running server."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            body = json.loads(self.rfile.read(length) or b"{}")
            status, reply = made.answer(self.path.partition("?")[0], body)
            data = json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.send_header("connection", "close")  # a connection that is kept outlives the server
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_PATCH = do_PUT = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    made = MlflowServer(f"http://127.0.0.1:{http.server_address[1]}")
    thread = Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        http.shutdown()
        http.server_close()
        thread.join()
