"""Our rules give the answers that Koordinator's and Kubernetes' own code gave.

Runs the committed samples and, where the folder of full vectors is beside the checkout (or KOORDPY_PARITY
names it), every file in it whose rule is known.
"""

import os
from pathlib import Path

import pytest

from .vectors import Rule, has_rule, rule_name

ROOT = Path(__file__).parents[2]
SAMPLES = Path(__file__).parent / "data"
FULL = Path(os.environ.get("KOORDPY_PARITY") or ROOT.parent / "shared" / "parity")
SHOWN = 3


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if has_rule(path)) if folder.is_dir() else []


def check(path: Path) -> None:
    result = Rule(rule_name(path)).run(path)
    assert result.passed, f"{path}: no line was compared"
    if result.mismatches:
        shown = "\n\n".join(map(str, result.mismatches[:SHOWN]))
        pytest.fail(f"{result}\n{shown}", pytrace=False)


@pytest.mark.parametrize("path", files(SAMPLES), ids=rule_name)
def test_sampled_vectors_agree(path: Path) -> None:
    check(path)


@pytest.mark.parametrize("path", files(FULL), ids=rule_name)
def test_all_vectors_agree(path: Path) -> None:
    check(path)
