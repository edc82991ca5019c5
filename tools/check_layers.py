"""Check that the packages import only downwards: paper_figures -> verify -> constructions -> theory.

    python tools/check_layers.py [ROOT]

Reads the source without running it, so imports inside functions, under TYPE_CHECKING and by name
(importlib.import_module("..."), __import__("...")) count as well; a name computed at run time cannot be seen.
Prints `file:line: ...` for each violation. Exit code 1 if there is one, 2 if a package is missing, else 0.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

LAYERS = ("theory", "constructions", "verify", "paper_figures")  # lowest first
# Functions that import the module whose name is their first argument.
IMPORTERS = {"import_module", "__import__", "run_module"}


class Violation(NamedTuple):
    """One import that goes upwards, or a file that cannot be read (line 1 if it has no line)."""

    file: Path
    line: int
    problem: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.problem}"


def find_violations(root: Path) -> list[Violation]:
    """All upward imports in the four packages under root, by file and line.

    Raises FileNotFoundError if one of the packages is missing: an empty tree must not pass.
    """
    violations = []
    for rank, layer in enumerate(LAYERS):
        if not (root / layer).is_dir():
            raise FileNotFoundError(f"no package {layer} in {root}; run this at the root of the repository")
        for file in sorted([*(root / layer).rglob("*.py"), *(root / layer).rglob("*.pyi")]):
            shown = file.relative_to(root)
            try:
                tree = ast.parse(file.read_bytes())
            except (SyntaxError, ValueError) as error:
                line = getattr(error, "lineno", None) or 1
                violations.append(Violation(shown, line, f"cannot be parsed ({error})"))
                continue
            seen = set()
            for line, name in _imports(tree, shown.parts[:-1]):
                target = name.split(".")[0]
                if target in LAYERS[rank + 1 :] and (line, target) not in seen:
                    seen.add((line, target))
                    violations.append(Violation(shown, line, f"{layer} must not import {target} ({name})"))
    return sorted(violations)


def _imports(tree: ast.AST, package: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """(line, absolute module name) of every import in the tree of a module that lies in package."""
    importers = set(IMPORTERS)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            importers |= {alias.asname for alias in node.names if alias.asname and alias.name in IMPORTERS}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            # `from a import b` may import the module a.b.
            base = _resolve("." * node.level + (node.module or ""), package)
            for alias in node.names:
                yield node.lineno, ".".join(filter(None, (base, alias.name)))
        elif isinstance(node, ast.Call):
            function = node.func
            called = getattr(function, "id", None) or getattr(function, "attr", None)
            if called not in importers:
                continue
            keywords = {keyword.arg: keyword.value for keyword in node.keywords}
            name = _string(node.args[0] if node.args else keywords.get("name", keywords.get("mod_name")))
            anchor = _string(node.args[1] if len(node.args) > 1 else keywords.get("package"))
            if name:
                yield node.lineno, _resolve(name, tuple(anchor.split(".")) if anchor else package)


def _resolve(name: str, package: tuple[str, ...]) -> str:
    """The absolute form of a possibly relative module name: one dot is the package, each further one a level
    up. Too many dots, an error at run time, end at the top.
    """
    stripped = name.lstrip(".")
    level = len(name) - len(stripped)
    if level == 0:
        return name
    return ".".join(filter(None, (*package[: max(0, len(package) - level + 1)], stripped)))


def _string(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def main(arguments: list[str]) -> int:
    """Check the tree named in arguments, by default the one this file lies in; returns the exit code."""
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    try:
        violations = find_violations(root)
    except FileNotFoundError as error:
        print(f"check_layers: {error}", file=sys.stderr)
        return 2
    for violation in violations:
        print(violation)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
