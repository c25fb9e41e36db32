"""Run commands with a tree's own code, each in a folder of its own, and write down what they answered.

A process imports everything once and forks a child for each command. Nothing of the tree is called but its commands, as
`python -m` does it; the servers, the data and the vectors of all texts are the kit's.
"""

import atexit
import gc
import hashlib
import importlib
import json
import logging
import os
import re
import runpy
import shlex
import shutil
import sqlite3
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

import tests
from tests.parity.commands import COMMANDS, WORLDS, Command
from tests.parity.intended import RENAMED
from tests.parity.masks import masked, masked_leaves
from tests.parity.reshaped import as_recorded
from tests.support.chat_server import MODEL, ChatServer, CohereChatServer
from tests.support.judging import Flaws, Labels, Oracle
from tests.support.openai_server import OpenAIChatServer

KIT = Path(__file__).parent
VECTORS = KIT / "vectors.npz"
PROGRAMS = {"run": "evals.run", "compare": "evals.compare", "golden": "evals.golden", "retrievers": "retrievers"}
TEXTS = (".html", ".xml", ".yaml", ".yml", ".md", ".csv", ".tsv", ".txt", ".py")
WORKERS = 2


class BrokenError(Exception):
    """A tree whose commands cannot be run."""


def environment() -> dict[str, str]:
    """Return the environment of every command: nothing of the machine's, keys for the servers of the kit alone."""
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH", "TMPDIR") if name in os.environ}
    return {
        **kept,
        "OPENBLAS_NUM_THREADS": "1",
        "COLUMNS": "120",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONHASHSEED": "0",
        "COHERE_API_KEY": CohereChatServer.key,
        "OPENAI_API_KEY": OpenAIChatServer.key,
    }


def answers(tree: Path, names: Sequence[str], data: Path | None, folder: Path) -> dict[str, Any]:
    """Run commands with a tree and return their masked answers by name.

    Args:
        tree: Whose `evals` and `retrievers`.
        names: Which commands.
        data: Folder of Cranfield, for its commands.
        folder: Where to work; the answers are there, too.

    Raises:
        BrokenError: A world could not be made with the tree.
    """
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "tests.parity.running", str(tree), str(data or ""), str(folder), *names]
    done = subprocess.run(command, cwd=KIT.parents[1], env=environment() | {"HOME": str(folder)}, check=False)
    if done.returncode:
        raise BrokenError(f"the tree {tree.name} cannot run the commands, exit code {done.returncode}")
    return {name: json.loads((folder / f"{name}.json").read_text("utf-8")) for name in names}


class Judge(Oracle):
    """Knows what the golden file of a world says, and errs on one question of eight."""

    def __init__(self, box: Path) -> None:
        pages, golden = box / "pages.jsonl", box / "golden.jsonl"
        texts = {one["_id"]: one["text"] for one in map(json.loads, pages.read_text("utf-8").splitlines())}
        cases = [json.loads(line) for line in golden.read_text("utf-8").splitlines()]
        super().__init__(
            {case["query"]: self._labels(case, texts) for case in cases},
            entities=("harbour", "pilots", "reef", "sandbank", "pier", "locks"),
            flaws=Flaws(false_useful=0.12, false_useless=0.12),
        )

    @staticmethod
    def _labels(case: Mapping[str, Any], texts: Mapping[str, str]) -> Labels:
        useful = [texts[key] for key, grade in case.get("relevant_ids", {}).items() if grade > 0]
        said = [f"{part}." for part in case.get("reference_answer", "").split(". ") if part]
        return Labels(useful=useful, claims={one.replace("..", "."): useful[:2] for one in said})


class Recorded:
    """WordLlama's model, which answers from recorded vectors where it can; `missing` are the others."""

    def __init__(self, known: Mapping[bytes, Any], load: Any) -> None:
        self._known = known
        self._load = load
        self._model: Any = None
        self.missing: dict[bytes, Any] = {}

    def embed(self, texts: Sequence[str], norm: bool = False) -> Any:
        """Return a row for each text."""
        keys = [hashlib.sha256(f"{norm} {text}".encode()).digest()[:16] for text in texts]
        if unknown := [place for place, key in enumerate(keys) if key not in self._known]:
            self._model = self._model or self._load()
            made = self._model.embed([texts[place] for place in unknown], norm=norm)
            self.missing |= {keys[place]: vector for place, vector in zip(unknown, made, strict=True)}
        return np.array([self.missing[key] if key in self.missing else self._known[key] for key in keys])


def read_vectors(file: Path = VECTORS) -> dict[bytes, Any]:
    """Return the recorded vectors by the key of their text."""
    if not file.is_file():
        return {}
    with np.load(file) as read:
        return {key.tobytes(): vector for key, vector in zip(read["keys"], read["vectors"], strict=True)}


def write_vectors(known: Mapping[bytes, Any], file: Path = VECTORS) -> None:
    """Record vectors, in the order of their keys."""
    keys = sorted(known)
    rows = np.array([np.frombuffer(key, np.uint8) for key in keys], np.uint8).reshape(-1, 16)
    np.savez_compressed(file, keys=rows, vectors=np.array([known[key] for key in keys], np.float32))


def missing_vectors(folder: Path) -> dict[bytes, Any]:
    """Return the vectors of all texts that the commands run in a folder had to embed."""
    found: dict[bytes, Any] = {}
    for file in sorted(folder.glob("missing-*.npz")):
        found |= read_vectors(file)
    return found


def _serve_vectors() -> Recorded:
    """Put the recorded vectors in front of WordLlama."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    import wordllama

    root.setLevel(level)
    root.handlers[:] = handlers
    load, stand_in = wordllama.WordLlama.load, Recorded(read_vectors(), None)

    def recorded(*arguments: Any, **options: Any) -> Recorded:
        stand_in._load = lambda: load(*arguments, **options)
        return stand_in

    wordllama.WordLlama.load = recorded
    return stand_in


class Runner:
    """Runs commands in children of this process.

    Args:
        tree: Whose code.
        data: Folder of Cranfield.
        folder: Where to work.
    """

    def __init__(self, tree: Path, data: Path | None, folder: Path) -> None:
        self._tree, self._data, self._folder = tree, data, folder
        self._vectors = _serve_vectors()

    def prepare(self, worlds: Sequence[str]) -> None:
        """Make the worlds from which commands start, and import what that needed into this process."""
        for name in worlds:
            box = self._folder / "worlds" / name
            box.mkdir(parents=True)
            if (KIT / "data" / name).is_dir():
                shutil.copytree(
                    KIT / "data" / name, box, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
                )
            self._in_child(lambda name=name, box=box: self._make(name, box))
            if not (box / "made").is_file():
                sys.exit(f"parity: the world {name!r} could not be made with {self._tree}; see above")
            for module in (box / "modules").read_text("utf-8").split():
                try:
                    importlib.import_module(module)
                except Exception:  # what one command imports in its own way is nothing to another
                    continue
            for used in ("made", "modules", "out", "err"):
                (box / used).unlink(missing_ok=True)
        gc.freeze()

    def run(self, commands: Sequence[Command]) -> None:
        """Run commands, two at a time; the answer of each is a file."""
        waiting, running = list(commands), set[int]()
        while waiting or running:
            if waiting and len(running) < WORKERS:
                command = waiting.pop(0)
                running.add(self._fork(lambda command=command: self._answer(command)))
            else:
                running.discard(os.wait()[0])

    def _make(self, name: str, box: Path) -> None:
        if name == "cranfield" and self._data:
            from tests.parity.cranfield import write_world

            write_world(self._data, box)
        for step in WORLDS[name]:
            if (code := self._step(shlex.split(step), box)) not in (0, 1):
                sys.stderr.write(f"{step}: exit code {code}\n{(box / 'err').read_text('utf-8')}")
                return
        (box / "made").touch()

    def _answer(self, command: Command) -> None:
        box = self._folder / "boxes" / command.name
        box.parent.mkdir(exist_ok=True)
        subprocess.run(["cp", "-a", "--sparse=always", self._folder / "worlds" / command.world, box], check=True)
        for file in box.glob("*.yaml"):
            file.write_text(_renamed(file.read_text("utf-8"), self._tree), "utf-8")
        seeds = {file: file.stat().st_mtime_ns for file in box.rglob("*") if file.is_file()}
        names = {str(box): "BOX", str(self._tree): "TREE", str(KIT.parents[1]): "TREE"}
        steps = []
        started = time.monotonic()
        with ExitStack() as stack:
            servers = self._servers(command, box, stack)
            for step in command.steps:
                asked = sum(len(server.chats) for server in servers.values())
                code = self._step(_filled(_renamed(f"{step} ", self._tree), servers), box)
                asked = sum(len(server.chats) for server in servers.values()) - asked
                out, err = (masked((box / name).read_text("utf-8"), names) for name in ("out", "err"))
                told = _json(box / "out")
                steps.append({"code": code, "asked": asked, "err": err})
                steps[-1] |= {"out": out} if told is None else {"out": [], "leaves": masked_leaves(told, names)}
        files = _files(box, seeds, names)
        answer = {"steps": steps, "files": files, "mlflow": _tracked(box, names), "seconds": time.monotonic() - started}
        (self._folder / f"{command.name}.json").write_text(json.dumps(answer), "utf-8")
        shutil.rmtree(box)

    @staticmethod
    def _servers(command: Command, box: Path, stack: ExitStack) -> dict[str, ChatServer]:
        kinds: dict[str, type[ChatServer]] = {"cohere": CohereChatServer, "openai": OpenAIChatServer}
        used = [name for name in kinds if any(f"{{{name}" in step for step in command.steps)]
        oracle = Judge(box) if (box / "pages.jsonl").is_file() else Oracle({})
        return {name: stack.enter_context(kinds[name](oracle, models=(MODEL, "small"))) for name in used}

    def _step(self, words: Sequence[str], box: Path) -> int:
        """Run one command in a child; return its exit code."""
        (box / "home").mkdir(exist_ok=True)
        return self._in_child(lambda: self._become(words, box))

    def _become(self, words: Sequence[str], box: Path) -> None:
        os.chdir(box)
        os.environ["HOME"] = str(box / "home")
        for descriptor, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(box / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
        program, *arguments = words
        sys.path.insert(0, str(box))
        sys.argv = [program, *arguments]
        code: Any = 0
        try:
            if program.endswith(".py"):
                runpy.run_path(program, run_name="__main__")
            else:
                # A command is a process of its own elsewhere; here runpy would warn of the module that is there.
                sys.modules.pop("evals.run", None)
                runpy.run_module(PROGRAMS[program], run_name="__main__", alter_sys=True)
        except SystemExit as end:
            code = end.code
        except BaseException:
            traceback.print_exc()
            code = 70
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        if self._vectors.missing:
            write_vectors(self._vectors.missing, self._folder / f"missing-{os.getpid()}.npz")
        if not (box / "modules").exists() and box.parent.name == "worlds":
            names = [name for name in sys.modules if "__main__" not in name and not name.startswith("tests")]
            (box / "modules").write_text("\n".join(names), "utf-8")
        os._exit(code if isinstance(code, int) else 0 if code is None else 1)

    def _in_child(self, work: Any) -> int:
        child = self._fork(work)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    @staticmethod
    def _fork(work: Any) -> int:
        sys.stdout.flush()
        sys.stderr.flush()
        if child := os.fork():
            return child
        try:
            work()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(0)


def _renamed(text: str, tree: Path) -> str:
    """Return a command, or an experiment file of the kit, as the tree at work wants it written."""
    if any((tree / "retrievers" / "config").glob("removed.*")):  # which the old tree lacks
        for before, now in RENAMED.items():
            text = text.replace(before, now)
    return text


def _filled(step: str, servers: Mapping[str, ChatServer]) -> list[str]:
    """Return the words of a command, with the addresses of its servers."""
    judges = {}
    for name, server in servers.items():
        url = server.base_url if isinstance(server, OpenAIChatServer) else server.url
        judges[f"{name}_url"] = url
        judges[name] = f"--judge.model {name}:{MODEL} --judge.base-url {url} --judge.cache-path verdicts.sqlite"
    for name, flags in judges.items():
        step = step.replace(f"{{{name}}}", flags)
    return shlex.split(step)


def _json(file: Path) -> Any:
    """Return what a command printed as JSON, None if it printed something else."""
    try:
        told = json.loads(file.read_text("utf-8"))
    except ValueError:
        return None
    return told if isinstance(told, dict | list) else None


def _files(box: Path, seeds: Mapping[Path, int], names: Mapping[str, str]) -> dict[str, Any]:
    """Return the files that are new or changed; what is in them where that can be read."""
    found: dict[str, Any] = {}
    for file in sorted(box.rglob("*")):
        name = re.sub(r"\b[0-9a-f]{32}\b", "ID", str(file.relative_to(box)))
        top = Path(name).parts[0]
        if (
            not file.is_file()
            or seeds.get(file) == file.stat().st_mtime_ns
            or top in ("home", "out", "err", "local", "new")
        ):
            continue
        if top.startswith("store") or "__pycache__" in name or re.search(r"-(wal|shm|journal)$|\.lock$", name):
            continue
        if "artifacts/" in name:
            found[name] = "an artifact"
        elif file.suffix in (".json", ".jsonl"):
            lines = file.read_text("utf-8").splitlines()
            value = [json.loads(one) for one in lines] if file.suffix == ".jsonl" else json.loads("\n".join(lines))
            found[name] = {"leaves": masked_leaves(as_recorded(value), names)}
        elif file.suffix in TEXTS:
            text = file.read_text("utf-8")
            if file.suffix == ".html":
                text = re.sub(r"(?s)<(style|script|svg)\b.*?</\1>", "", text)
                text = re.sub(r"<[^>]*>", "\n", text)
                text = re.sub(r"(?m)^[\s\d.,…%–+-]*$", "", text)  # the figures are those of the report, and latencies
            found[name] = {"lines": masked(text, names)}
        else:
            found[name] = "a file"
    return found


def _tracked(box: Path, names: Mapping[str, str]) -> list[Any]:
    """Return parameters and metrics of the runs in MLflow's database."""
    database = box / "mlruns" / "mlflow.db"
    if not database.is_file():
        return []
    with sqlite3.connect(database) as opened:
        runs = [one for (one,) in opened.execute("select run_uuid from runs")]
        found = [
            {
                "params": dict(opened.execute("select key, value from params where run_uuid = ?", [run])),
                "metrics": dict(opened.execute("select key, value from latest_metrics where run_uuid = ?", [run])),
            }
            for run in runs
        ]
    leaves = [masked_leaves(one, names) for one in found]
    return sorted(leaves, key=lambda one: json.dumps(one, sort_keys=True))


def main() -> None:
    """Run as a process of its own: tree, data, folder, names of commands."""
    tree, data, folder = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    commands = [one for one in COMMANDS if one.name in sys.argv[4:]]
    tests.__path__ = [str(KIT.parent)]  # else the tree's own tests would be found
    sys.path[:] = [str(tree), *(entry for entry in sys.path if Path(entry or ".").resolve() != KIT.parents[1])]
    runner = Runner(tree, Path(data) if data else None, folder)
    runner.prepare(sorted({one.world for one in commands}))
    origin = Path(str(sys.modules["retrievers"].__file__)).resolve()
    if not origin.is_relative_to(tree.resolve()):
        sys.exit(f"parity: expected the code of {tree}, got {origin}")
    runner.run(commands)


if __name__ == "__main__":
    main()
