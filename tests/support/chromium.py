"""A page in headless Chromium, spoken to by its DevTools protocol over a pipe: no driver, no port, no network."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Literal

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
SECONDS = 180
PAUSE_S = 0.2
TEXT = "document.body.innerText"
Theme = Literal["light", "dark"]


def find_chromium() -> str | None:
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Chromium:
    def __init__(self, reads: BinaryIO, writes: BinaryIO) -> None:
        self.reads, self.writes = reads, writes
        self.sent = 0
        self.session: str | None = None
        self.problems: list[str] = []
        self.loaded = False
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def open(self, page: Path | str, *, width: int, theme: Theme, height: int = 900) -> None:
        self.problems, self.loaded = [], False
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setScrollbarsHidden", hidden=True)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
        self.call("Page.navigate", url=page if isinstance(page, str) else page.absolute().as_uri())
        while not self.loaded:
            self._receive()

    def evaluate(self, expression: str) -> Any:
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait_for(self, expression: str) -> Any:
        end = time.monotonic() + SECONDS
        while not (value := self.evaluate(expression)):
            assert time.monotonic() < end, f"never true: {expression}; the page says {self.evaluate(TEXT)[:2000]}"
            time.sleep(PAUSE_S)
        return value

    def call(self, method: str, **parameters: Any) -> Mapping[str, Any]:
        self.sent += 1
        message: dict[str, Any] = {"id": self.sent, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        self.writes.write(json.dumps(message).encode() + b"\0")
        self.writes.flush()
        while True:
            answer = self._receive()
            if answer.get("id") == self.sent:
                assert "error" not in answer, answer
                result: Mapping[str, Any] = answer["result"]
                return result

    def _receive(self) -> Mapping[str, Any]:
        parts = []
        while (char := self.reads.read(1)) != b"\0":
            assert char, "the browser has gone"
            parts.append(char)
        message: Mapping[str, Any] = json.loads(b"".join(parts))
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, method: str | None, values: Mapping[str, Any]) -> None:
        if method == "Page.loadEventFired":
            self.loaded = True
        elif method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(values["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and values["type"] in ("error", "warning", "assert"):
            self.problems.append(json.dumps(values["args"]))
        elif method == "Log.entryAdded" and values["entry"]["level"] in ("error", "warning"):
            self.problems.append(values["entry"]["text"])
        elif method == "Network.requestWillBeSent" and not values["request"]["url"].startswith(("file:", "data:")):
            self.problems.append(f"request of {values['request']['url']}")


@contextmanager
def chromium(program: str, profile: Path) -> Iterator[Chromium]:
    reads_there, writes_here = os.pipe()
    reads_here, writes_there = os.pipe()
    flags = "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --remote-debugging-pipe"
    redirected = f'exec 3<&{reads_there} 4>&{writes_there}; exec "$0" "$@"'
    process = subprocess.Popen(
        ["bash", "-c", redirected, program, *flags.split(), f"--user-data-dir={profile}", "about:blank"],
        pass_fds=(reads_there, writes_there),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(reads_there)
    os.close(writes_there)
    with open(reads_here, "rb") as reads, open(writes_here, "wb") as writes:  # noqa: PTH123
        try:
            yield Chromium(reads, writes)
        finally:
            process.terminate()
            process.wait(SECONDS)
