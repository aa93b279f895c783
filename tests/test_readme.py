"""The README's examples run and print what they say."""

import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"```(\w*)\n(.*?)```", re.S)


def python_examples():
    """Each Python block with a plain block after it, which is what it prints."""
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        blocks = BLOCK.findall(page.read_text("utf-8"))
        for (language, code), (after, printed) in pairwise(blocks):
            if (language, after) == ("python", ""):
                yield pytest.param(code, printed, id=page.name)


@pytest.mark.parametrize(("code", "printed"), list(python_examples()))
def test_a_python_example_prints_what_the_page_says(code, printed, tmp_path):
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (found.returncode, found.stdout) == (0, printed), found.stderr


def test_the_readme_names_only_commands_and_targets_that_exist():
    readme = (ROOT / "README.md").read_text("utf-8")
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    assert set(re.findall(r"`?make ([a-z-]+)", readme)) <= targets
    from pipelines.cli import COMMANDS

    assert set(re.findall(r"crowdbeam (aggregate|simulate|evaluate|[a-z]+) ", readme)) - {"tells"} <= set(COMMANDS)


def test_no_page_has_a_gap():
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")):
        assert "@@" not in page.read_text("utf-8"), page.name


def test_every_page_that_is_linked_exists():
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")):
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text("utf-8")):
            assert "://" in link or (page.parent / link).exists(), f"{page.name} links {link}"
