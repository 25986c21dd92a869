"""Tables: rows with their places, amounts as products, and what is wrong with a cell."""

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.api import quantity
from koordpy.api.config_model import ConfigError
from koordpy.simulation import tables


def test_rows_of_csv_and_json_lines_are_equal(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("name,cpu\nx,1\ny,2\n")
    (tmp_path / "a.jsonl").write_text('{"name": "x", "cpu": "1"}\n\n{"name": "y", "cpu": "2"}\n')
    with gzip.open(tmp_path / "a.csv.gz", "wt") as file:
        file.write("name,cpu\nx,1\ny,2\n")
    (tmp_path / "named-otherwise.csv").write_bytes((tmp_path / "a.csv.gz").read_bytes())
    (tmp_path / "with-mark.csv").write_text("\ufeffname,cpu\r\nx,1\r\ny,2\r\n")
    names = ("a.csv", "a.jsonl", "a.csv.gz", "named-otherwise.csv", "with-mark.csv")
    expected = [{"name": "x", "cpu": "1"}, {"name": "y", "cpu": "2"}]
    for name in names:
        assert [dict(row) for _, row in tables.rows(tmp_path / name)] == expected


def test_a_compressed_table_that_ends_early_is_reported(tmp_path: Path) -> None:
    whole = gzip.compress(b"name,cpu\n" + b"x,1\n" * 1000)
    (tmp_path / "a.csv.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ConfigError, match="not a table"):
        list(tables.rows(tmp_path / "a.csv.gz"))


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.csv", "a,b\n1\n", "a.csv:2: expected 2 cells"),
        ("a.jsonl", "{}\n[1]\n", "a.jsonl:2: got '[1]', expected an object"),
        ("a.jsonl", "{", "a.jsonl:1: not JSON"),
        ("a.txt", "", "expected a .csv or .jsonl file"),
        ("a.csv.gz", "no gzip", "not a table"),
    ],
)
def test_an_invalid_table_is_reported(tmp_path: Path, name: str, text: str, expected: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError) as told:
        list(tables.rows(tmp_path / name))
    assert expected in str(told.value)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("cpu", "32000"),
        ("cpu*m", "32"),
        ("odd*m", "1250m"),
        ("memory*Mi", str(512 << 20)),
        ("gpus*share", "1500"),
        ("gpus*1000", "3000"),
        ("empty*Mi", "0"),
        ("half", "500m"),
    ],
)
def test_amounts_are_products_of_columns_units_and_numbers(expression: str, expected: str) -> None:
    row = {
        "cpu": "32000",
        "odd": "1250",
        "memory": 512,
        "gpus": "3",
        "share": "500",
        "empty": "",
        "half": ".5",
    }
    assert tables.amount(row, expression, "here") == expected


@pytest.mark.parametrize(
    ("cell", "expression", "expected"),
    [
        ("many", "n", "here: n: got 'many', expected a number"),
        ("-1", "n", "expected a number that is not negative"),
        ("1", "other", "got '', expected a number"),
        ("1.0001", "n", "finer than a thousandth"),
    ],
)
def test_an_invalid_cell_is_reported_by_place_and_column(cell: str, expression: str, expected: str) -> None:
    with pytest.raises(ConfigError) as told:
        tables.amount({"n": cell, "x": "1"}, expression, "here")
    assert "here" in str(told.value)
    if expression == "other":
        assert "no column 'other'; columns: n, x" in str(told.value)
    else:
        assert expected in str(told.value)


@given(st.integers(0, 10**9), st.sampled_from(["m", "k", "Ki", "Mi", "Gi"]))
def test_an_amount_is_a_quantity_of_the_same_size(number: int, unit: str) -> None:
    written = tables.amount({"n": str(number)}, f"n*{unit}", "here")
    assert quantity.milli_value(written) == quantity.milli_value(f"{number}{unit}")


def test_times_are_seconds() -> None:
    assert tables.seconds({"t": "12.5"}, "t", "here") == 12.5
    for wrong in ("", "-1", "nan", "inf", "soon"):
        with pytest.raises(ConfigError, match="expected seconds"):
            tables.seconds({"t": wrong}, "t", "here")
