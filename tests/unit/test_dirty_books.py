"""Tests that may end with dirty books exist, and say why; all others may not."""

import re
from pathlib import Path

from tests.dirty_books import DIRTY, why_dirty

ROOT = Path(__file__).parents[2]


def test_only_tests_that_exist_may_have_dirty_books() -> None:
    for name, reason in DIRTY.items():
        module, _, test = name.partition("::")
        text = (ROOT / module).read_text()
        assert not test or re.search(rf"def {test}\(", text), name
        assert len(reason.split()) > 4, name


def test_the_parameters_of_a_test_do_not_matter_and_others_of_its_module_are_audited() -> None:
    module = "tests/e2e/test_audited_planes.py"
    dirty = f"{module}::test_one_that_is_dirty_on_purpose_fails_none"
    assert why_dirty(dirty) == why_dirty(f"{dirty}[a::b]") != ""
    assert why_dirty(f"{module}::another") == why_dirty("tests/faults/test_failover.py::test") == ""
