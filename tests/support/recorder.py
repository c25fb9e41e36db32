"""Runs `evals.run` while every connection out of this machine and every process it starts is written to a file.

python recorder.py FILE [arguments of evals.run]

Beside it the environment in which it is run: full of keys and addresses, none of which the default run may use or tell.
"""

import ipaddress
import json
import sys
from pathlib import Path
from typing import Any

LOOPBACK = ("localhost", "", None)
ADDRESSED = {"socket.connect": 1, "socket.sendto": 1, "socket.sendmsg": 1}
NAMED = ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo")
STARTED = ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system")

SECRET = "s3cr3t-marked"
ENVIRONMENT: dict[str, str] = json.loads((Path(__file__).parent / "pages" / "environment.json").read_text())
"""The keys hold the secret; the addresses are of a network that is reserved for examples."""


def _is_local(host: Any) -> bool:
    if isinstance(host, bytes):
        host = host.decode(errors="replace")
    if host in LOOPBACK:
        return True
    try:
        return ipaddress.ip_address(str(host).partition("%")[0]).is_loopback
    except ValueError:
        return False


def _record(events: list[list[str]], event: str, arguments: tuple[Any, ...]) -> None:
    if event in ADDRESSED:
        address = arguments[ADDRESSED[event]]
        if isinstance(address, tuple) and not _is_local(address[0]):  # a Unix socket's is a path
            events.append([event, repr(address)])
    elif event in NAMED:
        host = arguments[0][0] if isinstance(arguments[0], tuple) else arguments[0]
        if not _is_local(host):
            events.append([event, repr(host)])
    elif event in STARTED:
        events.append(["process", str(arguments[0])])


def main() -> int:
    events: list[list[str]] = []
    watched = {*ADDRESSED, *NAMED, *STARTED}
    sys.addaudithook(lambda event, arguments: _record(events, event, arguments) if event in watched else None)
    from evals.run import main as run

    try:
        return run(sys.argv[2:])
    finally:
        Path(sys.argv[1]).write_text(json.dumps(events))


if __name__ == "__main__":
    sys.exit(main())
