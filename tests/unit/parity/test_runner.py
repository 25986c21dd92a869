import gzip
import json
from pathlib import Path

import pytest

from tests.parity.__main__ import main
from tests.parity.sample import pick
from tests.parity.vectors import Line, equal, rule_name

RIGHT = {
    "in": {"op": "cmp", "a": "1", "b": "2"},
    "out": {"cmp": -1, "rev": 1, "zero": [False, False]},
    "tag": "cmp",
}
WRONG = RIGHT | {"out": {"cmp": 0, "rev": 0, "zero": [False, False]}}


def file_of(path: Path, *vectors: object) -> str:
    text = "".join(json.dumps(vector) + "\n" for vector in vectors)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return str(path)


@pytest.mark.parametrize("name", ["vocab_quantity.jsonl", "vocab_quantity.more.jsonl.gz"])
def test_agreement_is_status_0(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert main([file_of(tmp_path / name, RIGHT, RIGHT)]) == 0
    assert capsys.readouterr().out == "vocab_quantity: 2/2 passed\n"


def test_a_mismatch_is_status_1_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([file_of(tmp_path / "vocab_quantity.jsonl", RIGHT, WRONG)]) == 1
    shown = capsys.readouterr().out
    assert "vocab_quantity: 1/2 passed" in shown
    assert "line 2 (cmp)" in shown
    assert '- "cmp": 0,' in shown
    assert '+ "cmp": -1,' in shown


def test_an_unknown_rule_is_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = file_of(tmp_path / "vocab_quantity.jsonl", RIGHT)
    assert main([file_of(tmp_path / "no_such_rule.jsonl", RIGHT), known]) == 2
    printed = capsys.readouterr()
    assert "no_such_rule" in printed.err
    assert "1/1 passed" in printed.out


def test_an_exception_is_a_mismatch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([file_of(tmp_path / "vocab_quantity.jsonl", RIGHT | {"in": {"op": "odd"}})]) == 1
    assert "unknown operation" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        ({"a": [1]}, {"a": (1.0,)}, True),
        ({"a": None}, {}, False),
        ([1, 2], [1], False),
        ("1", 1, False),
    ],
)
def test_json_values_are_compared_by_value_and_kind(left: object, right: object, same: bool) -> None:
    assert equal(left, right) is same


def test_a_sample_has_lines_of_every_tag_in_file_order() -> None:
    lines = [Line(n, "", {}, {}, "rare" if n in (7, 500) else "common") for n in range(1, 1001)]
    picked = pick(lines, 100)
    assert len(picked) == 100
    assert [line.number for line in picked] == sorted(line.number for line in picked)
    assert sum(line.tag == "rare" for line in picked) == 2
    assert pick(lines, 100) == picked


def test_a_rule_is_named_up_to_the_first_dot() -> None:
    assert rule_name(Path("x/gang.public.jsonl.gz")) == "gang"
