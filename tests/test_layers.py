"""The four packages import downwards only, and the checker that says so can say no."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CHECKER = ROOT / "tools" / "check_layers.py"
find_violations = runpy.run_path(str(CHECKER))["find_violations"]

FORBIDDEN = {
    "import": ("theory/a.py", "import verify", 1),
    "import with a dot": ("theory/a.py", "import verify.cli", 1),
    "import as": ("theory/a.py", "import numpy, constructions as c", 1),
    "from import": ("constructions/a.py", "from verify import check", 1),
    "from a submodule": ("constructions/a.py", "import numpy\nfrom verify.training import train", 2),
    "in a subpackage": ("theory/families/a.py", "from constructions import build", 1),
    "in a package's init": ("verify/__init__.py", "import paper_figures.report", 1),
    "lazy": ("verify/cli.py", "def f():\n    from paper_figures import report\n    return report", 2),
    "lazy, in a method": ("theory/a.py", "class A:\n    def f(self):\n        import verify", 3),
    "for types only": (
        "theory/a.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import constructions",
        3,
    ),
    "in a try": ("theory/a.py", "try:\n    import verify\nexcept ImportError:\n    pass", 2),
    "relative, above the top": ("theory/families/a.py", "from ...verify import check", 1),
    "relative, name only": ("constructions/a.py", "from .. import verify", 1),
    "import_module": ("theory/a.py", "import importlib\nimportlib.import_module('verify.cli')", 2),
    "import_module by keyword": ("theory/a.py", "import importlib as i\ni.import_module(name='verify')", 2),
    "import_module by itself": (
        "theory/a.py",
        "from importlib import import_module\nimport_module('verify')",
        2,
    ),
    "import_module renamed": ("theory/a.py", "from importlib import import_module as g\ng('verify')", 2),
    "import_module relative": (
        "theory/a.py",
        "import importlib\nimportlib.import_module('.cli', package='verify')",
        2,
    ),
    "__import__": ("constructions/a.py", "x = __import__('paper_figures')", 1),
    "a stub": ("theory/a.pyi", "import verify", 1),
    "no Python": ("theory/a.py", "import verify as", 1),
}

ALLOWED = {
    "theory/a.py": "import numpy\nfrom theory.verify_words import a\nimport theory.b, verifying\n",
    "theory/families/a.py": "from .. import verify\nfrom ..circuit import Map\nfrom . import constructions\n",
    "constructions/a.py": "import theory.circuit\nfrom theory import Supports\nopen('verify')\n",
    "verify/a.py": "import importlib, constructions, theory\nimportlib.import_module('theory')\n",
    "paper_figures/a.py": "import theory, constructions, verify\ndef f():\n    from verify import store\n",
}


def tree(root: Path, files: dict[str, str]) -> Path:
    for package in ("theory", "constructions", "verify", "paper_figures"):
        (root / package).mkdir()
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(CHECKER), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_this_repository_imports_downwards_only():
    assert find_violations(ROOT) == []
    assert run().returncode == 0


@pytest.mark.parametrize("name", FORBIDDEN)
def test_upward_import_is_found(name, tmp_path):
    file, text, line = FORBIDDEN[name]
    (violation,) = find_violations(tree(tmp_path, {**ALLOWED, file: text}))
    assert (violation.file.as_posix(), violation.line) == (file, line)


def test_downward_and_unrelated_imports_pass(tmp_path):
    assert find_violations(tree(tmp_path, ALLOWED)) == []
    assert run(tmp_path).returncode == 0


def test_every_violation_is_printed_on_its_own_line(tmp_path):
    files = {"theory/a.py": "import verify, constructions\n", "verify/b.py": "\nimport paper_figures\n"}
    done = run(tree(tmp_path, files))
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "theory/a.py:1: theory must not import constructions (constructions)",
        "theory/a.py:1: theory must not import verify (verify)",
        "verify/b.py:2: verify must not import paper_figures (paper_figures)",
    ]


def test_missing_packages_do_not_pass(tmp_path):
    done = run(tmp_path)
    assert done.returncode == 2
    assert "no package theory" in done.stderr
