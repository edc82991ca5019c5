"""The README's Python and commands are run, as written."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
SHELL = [line for block in re.findall(r"```sh\n(.*?)```", README, flags=re.DOTALL) for line in block.splitlines()]
MAKE = re.findall(r"^    (make \w+)", README, flags=re.MULTILINE)


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the Python blocks have been run one after the other, as a reader would."""
    folder = tmp_path_factory.mktemp("readme")
    script = folder / "readme.py"
    script.write_text("\n".join(PYTHON))
    done = subprocess.run([sys.executable, script.name], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (folder / "output.txt").write_text(done.stdout)
    return folder


def test_python_runs_and_says_what_the_text_says(workplace: Path) -> None:
    output = (workplace / "output.txt").read_text()
    assert "holds" in output
    assert re.search(r"<= 1e-2, with \d+ neurons", output)
    assert (workplace / "mine.npz").is_file()


def test_there_are_blocks_to_run() -> None:
    assert len(PYTHON) >= 3 and len(SHELL) >= 3 and len(MAKE) == 2


@pytest.mark.parametrize("line", SHELL)
def test_commands_run(line: str, workplace: Path) -> None:
    name, *arguments = shlex.split(line)
    assert name == "kofm"
    command = [sys.executable, "-c", "from verify.cli import main; main()", *arguments]
    done = subprocess.run(command, cwd=workplace, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.parametrize("line", MAKE)
def test_make_targets_exist(line: str) -> None:
    done = subprocess.run([*line.split(), "--dry-run"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert ("kofm check" if "theorem" in line else "pytest") in done.stdout


def test_claims_of_the_table_are_the_registry() -> None:
    from theory import claims

    assert re.findall(r"^\| (C\d+) ", README, flags=re.MULTILINE) == list(claims.CLAIMS)
