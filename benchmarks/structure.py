"""Figures of the code's structure, beside those of model codebases: each is a question, not a target.

python benchmarks/structure.py [--static] [CHECKOUT ...]     (default: this checkout)

Every checkout gets a table, with a column for each of its packages. A folder without `evals` and `retrievers` counts as
one package, so `python benchmarks/structure.py . SITE_PACKAGES/httpx` sets another codebase beside this one.

Counting rules:
- entries at the root: files and folders of a package, without names that begin with `__` or `.` and without `py.typed`.
- record classes: dataclasses, pydantic models, named tuples and typed dictionaries.
- record types a query: record classes of which a run makes at least one instance for each further golden query, the
  collection indexed before. A run of FEW in-scope queries a split is set against one of MANY. Both have the same
  out-of-scope queries besides, and no query has a type or a tag, so that both runs score the same metrics over the same
  slices: those that only a larger run has would count as queries. The single calls that measure latency and determinism
  are included. Classes of one name in two modules are two. Left out are SERVICES, which hold settings or a deadline and
  nothing of a query. Tuples and dictionaries with fixed keys do not show.
- private functions used once: `_name` occurs twice in its module, at its definition and at its call.
- question docstrings: docstrings of functions and classes whose first word is one of QUESTIONS.
- own-line comments: lines that begin with `#`, per 100 lines that are not blank.
- lines: all lines of all Python files.
"""

import argparse
import ast
import contextlib
import io
import json
import re
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("evals", "retrievers", "tests")
QUESTIONS = ("What", "Whether", "How", "Where", "Who", "Why", "That")
RECORDS = {"dataclass", "BaseModel", "NamedTuple", "TypedDict", "Settings"}
# httpx 0.28, pydantic_evals and inspect_ai by the same rules; the record types follow one query through pydantic_evals.
MODELS = {
    "entries at the root": "14 to 19",
    "record types a query, single run": "6",
    "private functions used once": "5% to 22%",
    "question docstrings": "0% to 2%",
    "own-line comments per 100 lines": "3.4 to 14",
}
FEW, MANY = 4, 12
OUT_OF_SCOPE = 3
GOLDEN = Path("datasets/physical_ai_handbook/golden.jsonl")
SERVICES = {"Folder", "Pipeline", "Scope", "Search", "Tries"}
GRID = ("--sweep.top-k", "1:5", "--sweep.threshold", "0:0.8:0.2")


def main() -> None:
    """Print a table for each checkout."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", nargs="*", type=Path, default=[ROOT], metavar="CHECKOUT")
    parser.add_argument("--static", action="store_true", help="read the code only; run nothing")
    parser.add_argument("--count-records", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.count_records:
        print(json.dumps(records_per_query(arguments.count_records)))
        return
    for checkout in arguments.checkouts:
        print_table(checkout.resolve(), run=not arguments.static)


def print_table(checkout: Path, *, run: bool) -> None:
    """Print the figures of a checkout, its packages as columns."""
    is_ours = (checkout / "evals").is_dir() and (checkout / "retrievers").is_dir()
    packages = [checkout / name for name in PACKAGES if (checkout / name).is_dir()] if is_ours else [checkout]
    columns = {package.name: static_figures(package) for package in packages}
    if run and is_ours:
        columns["evals"] |= measured_records(checkout)
    rows = list(dict.fromkeys(row for column in columns.values() for row in column))
    print(f"{checkout.name:<36}" + "".join(f"{name:>16}" for name in columns) + f"{'models':>12}")
    for row in rows:
        cells = "".join(f"{column.get(row, ''):>16}" for column in columns.values())
        print(f"{row:<36}{cells}{MODELS.get(row, ''):>12}")
    print()


def static_figures(package: Path) -> dict[str, str]:
    """Return the figures that reading the code gives, by name."""
    texts = [file.read_text(encoding="utf-8") for file in sorted(package.rglob("*.py"))]
    nodes = [node for text in texts for node in ast.walk(ast.parse(text))]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    docstrings = list(first_words(nodes))
    lines = [line for text in texts for line in text.splitlines()]
    code = [line for line in lines if line.strip()]
    entries = [entry for entry in package.iterdir() if not re.match(r"__|\.|py\.typed$", entry.name)]
    comments = sum(line.lstrip().startswith("#") for line in code)
    return {
        "entries at the root": str(len(entries)),
        "record classes": str(sum(is_record(node) for node in nodes)),
        "private functions used once": f"{sum(map(used_once, texts)) / max(1, len(functions)):.0%}",
        "question docstrings": f"{sum(word in QUESTIONS for word in docstrings) / max(1, len(docstrings)):.1%}",
        "own-line comments per 100 lines": f"{100 * comments / len(code):.1f}",
        "lines": f"{len(lines):,}",
    }


def used_once(text: str) -> int:
    """Return the number of private functions in a module that the module calls once."""
    names = [
        node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    words = Counter(re.findall(r"\w+", text))
    return sum(name.startswith("_") and not name.startswith("__") and words[name] == 2 for name in names)


def is_record(node: ast.AST) -> bool:
    """Return True for a class that is a record."""
    if not isinstance(node, ast.ClassDef):
        return False
    marks = [ast.unparse(mark).partition("(")[0].rpartition(".")[2] for mark in (*node.decorator_list, *node.bases)]
    return not RECORDS.isdisjoint(marks)


def first_words(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Yield the first word of each docstring of a function or class."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            words = (ast.get_docstring(node) or "").split()
            yield from words[:1]


def measured_records(checkout: Path) -> dict[str, str]:
    """Return the numbers of record types that a query passes through, measured in a process of its own.

    Two checkouts have modules of the same names, so each needs its own interpreter.
    """
    command = [sys.executable, str(Path(__file__).resolve()), "--count-records", str(checkout)]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{checkout.name}: the record types were not counted: {done.stderr.strip()[-300:]}", file=sys.stderr)
        return {}
    names: Mapping[str, Sequence[str]] = json.loads(done.stdout)
    for run, types in names.items():
        print(f"{run}: {', '.join(types)}", file=sys.stderr)
    return {f"record types a query, {run}": str(len(types)) for run, types in names.items()}


def records_per_query(checkout: Path) -> dict[str, list[str]]:
    """Return the record types of which a run makes at least one instance a query, for a single run and for a grid."""
    sys.path.insert(0, str(checkout))
    from evals.run.command import main as evaluate

    def instances(in_scope: int, flags: Sequence[str]) -> Counter[type]:
        write_golden(checkout / GOLDEN, Path("golden.jsonl"), in_scope)
        # Flags that name other golden data and another store leave the default's handbook out, unless it is named.
        handbook = (
            "--index.collection",
            "physical_ai_handbook",
            "--sources.dir",
            str((checkout / GOLDEN).parent / "docs"),
        )
        store = ("--retriever.store.path", "store", "--tracking.enabled", "false")
        arguments = ["--dataset.path", "golden.jsonl", *handbook, *store, "--quiet", "--no-gate", *flags]
        counts: Counter[type] = Counter()
        with contextlib.redirect_stdout(io.StringIO()), counted(counts):
            code = evaluate(arguments)
        if code:
            raise SystemExit(code)
        return counts

    instances(FEW, ())  # indexes the collection, whose records are not those of a query
    result = {}
    for run, flags in (("single run", ("--output", "report.json")), ("grid", ("--output", "report.json", *GRID))):
        few, many = instances(FEW, flags), instances(MANY, flags)
        names = [kind.__name__ for kind in many if many[kind] - few[kind] >= MANY - FEW]
        result[run] = sorted(name for name in names if name not in SERVICES)
    return result


def write_golden(source: Path, target: Path, in_scope: int) -> None:
    """Write golden data, of each split some in-scope queries and OUT_OF_SCOPE others, without types and tags."""
    cases = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()]
    plain = [{key: value for key, value in case.items() if key not in ("query_type", "tags")} for case in cases]
    kinds: dict[tuple[str, bool], list[str]] = {
        (case["split"], case["in_scope"]): [] for case in plain
    }  # a single run reads one split, a grid both
    for case in plain:
        kinds[case["split"], case["in_scope"]].append(json.dumps(case) + "\n")
    lines = [line for (_, inside), kind in kinds.items() for line in kind[: in_scope if inside else OUT_OF_SCOPE]]
    target.write_text("".join(lines), encoding="utf-8")


@contextlib.contextmanager
def counted(counts: Counter[type]) -> Iterator[None]:
    """Count the records of ours that are made in the block, in every thread, by class."""

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event != "call" or frame.f_code.co_name not in ("__init__", "__new__"):
            return
        # Dataclasses and pydantic models pass the instance, named tuples the class.
        first = frame.f_locals.get("self", frame.f_locals.get("_cls"))
        kind = first if isinstance(first, type) else type(first)
        fields = {"__dataclass_fields__", "__pydantic_fields__", "_fields"}
        if kind.__module__.partition(".")[0] in PACKAGES and fields & set(dir(kind)):
            counts[kind] += 1

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


if __name__ == "__main__":
    main()
