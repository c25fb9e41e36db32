"""Another process with the same store open: reads commands from standard input, answers a line of JSON to each."""

import json
import sys
from pathlib import Path

from retrievers.errors import StoreError
from retrievers.store.edge import EdgeClient


def main(path: Path, name: str) -> None:
    """Serve the commands count, generation, write, close."""
    client = EdgeClient(path)
    for line in sys.stdin:
        try:
            match line.strip():
                case "count":
                    answer: object = client.count(name).count
                case "generation":
                    answer = client.generation(name)
                case "write":
                    client.delete(name, [0])
                    answer = "written"
                case _:
                    client.close()
                    answer = "closed"
        except StoreError as error:
            answer = f"{type(error).__name__}: {error}"
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
