"""Hold the code against its budget: lines of code proper a room, files, settings (`[tool.budget]` in pyproject.toml).

python .ci/budget.py [CHECKOUT]        print the table; exit code 1 where something is over budget

Code proper is what remains of a file without docstrings, imports, comments and blank lines. A room is a folder of
`evals`, the files of `evals` itself, or `retrievers`. A setting is a field of a settings class that is no
section of its own; a base class counts with those that inherit from it. A budget is raised by hand, with the reason in
the commit.
"""

import ast
import sys
import tomllib
from collections import Counter
from pathlib import Path

PACKAGES = ("evals", "retrievers")


def main() -> int:
    """Print what each room holds beside its budget."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    budget = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8")).get("tool", {}).get("budget", {})
    files = sorted(file for package in PACKAGES for file in (root / package).rglob("*.py"))
    lines: Counter[str] = Counter()
    for file in files:
        lines[_room(file.relative_to(root))] += code_proper(file.read_text(encoding="utf-8"))
    rows = [(room, count, budget.get("rooms", {}).get(room)) for room, count in sorted(lines.items())]
    rows += [
        ("lines", lines.total(), budget.get("lines")),
        ("files", len(files), budget.get("files")),
        ("settings", settings(root), budget.get("settings")),
    ]
    for name, count, limit in rows:
        over = limit is not None and count > limit
        sys.stdout.write(
            f"{name:<20}{count:>8,}{'' if limit is None else f' of {limit:,}'}{'  OVER' if over else ''}\n"
        )
    return int(any(limit is not None and count > limit for _, count, limit in rows))


def code_proper(text: str) -> int:
    """Return the number of lines of a module that are neither docstring, import, comment nor blank."""
    tree, skipped = ast.parse(text), set[int]()
    for node in ast.walk(tree):
        match node:
            # A text that stands alone documents what it is in, or the constant above it.
            case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant(value=str())):
                skipped.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return sum(
        number not in skipped and bool(line.strip()) and not line.strip().startswith("#")
        for number, line in enumerate(text.splitlines(), 1)
    )


def settings(root: Path) -> int:
    """Return the number of values that a user can set: fields of settings classes that are no sections of their own."""
    classes: dict[str, tuple[list[str], dict[str, str]]] = {}
    for file in (file for package in PACKAGES for file in (root / package / "config").glob("*.py")):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                fields = {
                    ast.unparse(part.target): ast.unparse(part.annotation)
                    for part in node.body
                    if isinstance(part, ast.AnnAssign)
                    and not (ast.unparse(part.target).startswith("_") or "ClassVar" in ast.unparse(part.annotation))
                }
                classes[node.name] = [ast.unparse(base) for base in node.bases], fields

    def inherited(name: str) -> dict[str, str]:
        above, own = classes.get(name, ([], {}))
        return {field: kind for base in above for field, kind in inherited(base).items()} | own

    def is_settings(name: str) -> bool:
        return name == "Settings" or any(map(is_settings, classes.get(name, ([], {}))[0]))

    bases = {base for above, _ in classes.values() for base in above}
    return sum(
        not is_settings(kind.removesuffix(" | None"))
        for name in classes.keys() - bases
        if is_settings(name)
        for kind in inherited(name).values()
    )


def _room(file: Path) -> str:
    package, *folders = file.parts[:-1]
    return package if package == "retrievers" or not folders else f"{package}/{folders[0]}"


if __name__ == "__main__":
    sys.exit(main())
