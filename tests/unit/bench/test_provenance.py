import subprocess
from pathlib import Path

import pytest

from bench import provenance
from bench.provenance import Provenance


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=n", "-c", "user.email=n@example.com")
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "code.py").write_text("1")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "one")
    return tmp_path


def test_a_clean_checkout_is_its_commit(checkout: Path) -> None:
    found = provenance.of(checkout)
    assert found == Provenance(git(checkout, "rev-parse", "HEAD"))
    assert str(found) == f"`{found.commit[:9]}`"


@pytest.mark.parametrize("name", ["code.py", "new.py"])
def test_a_changed_or_a_new_file_makes_it_dirty(checkout: Path, name: str) -> None:
    (checkout / name).write_text("2")
    assert provenance.of(checkout).dirty
    assert str(provenance.of(checkout)).endswith("` with uncommitted changes")


def test_results_and_documentation_do_not_make_it_dirty(checkout: Path) -> None:
    for name in ("bench/results/example.json", "docs/performance.md"):
        (checkout / name).parent.mkdir(parents=True)
        (checkout / name).write_text("{}")
    assert not provenance.of(checkout).dirty


def test_what_is_no_checkout_is_unknown(tmp_path: Path) -> None:
    assert provenance.of(tmp_path) == Provenance()
    assert str(provenance.of(tmp_path)) == "commit unknown"
