"""Quantities: `koordpy.api.quantity`."""

from functools import reduce
from operator import add
from typing import Any

from koordpy.api.quantity import UNSET, Format, Quantity, QuantityError, parse, parse_json

from ..vectors import equal

SCALES = {"": 0, "milli": -3, "micro": -6}


def operand(text: str) -> Quantity:
    return parse(text) if text else UNSET


def described(quantity: Quantity) -> dict[str, Any]:
    return {
        "s": str(quantity),
        "fmt": quantity.format,
        "value": quantity.value(),
        "milli": quantity.milli_value(),
        "f": quantity.approximate_float(),
        "sign": quantity.sign,
        "canon": quantity.canonical(),
        "json": str(quantity),
    }


def answer(case: dict[str, Any]) -> dict[str, Any]:
    match case:
        case {"op": "parse", "a": text}:
            return described(parse(text))
        case {"op": "json", "raw": raw}:
            return described(parse_json(raw))
        case {"op": "cmp", "a": a, "b": b}:
            left, right = operand(a), operand(b)
            return {
                "cmp": left.compare(right),
                "rev": right.compare(left),
                "zero": [left.is_zero, right.is_zero],
            }
        case {"op": "add", "a": a, "b": b}:
            return described(operand(a) + operand(b))
        case {"op": "sub", "a": a, "b": b}:
            return described(operand(a) - operand(b))
        case {"op": "sum", "list": texts}:
            return described(reduce(add, map(operand, texts)))
        case {"op": "scaled", "a": a, "scale": scale}:
            return {"v": operand(a).scaled_value(scale)}
        case {"op": "round", "a": a, "scale": scale}:
            rounded, exact = operand(a).round_up(scale)
            return described(rounded) | {"exact": exact}
        case {"op": "mul", "a": a, "n": factor}:
            product, ok = operand(a).multiply(factor)
            return described(product) | {"ok": ok}
        case {"op": "new", "n": number, "unit": unit, "fmt": format}:
            return described(Quantity.of_scaled(number, SCALES[unit], Format(format)))
    raise ValueError(f"unknown operation in {case}")


def run(case_in: dict[str, Any], tag: str | None) -> dict[str, Any]:
    try:
        return answer(case_in)
    except QuantityError as error:
        return {"err": True, "why": error.reason}


def same(ours: dict[str, Any], expected: dict[str, Any], case_in: dict[str, Any]) -> bool:
    """Compare every field that is expected; the canonical text only differs where it is given."""
    wanted: dict[str, Any] = {"canon": expected.get("s")} | expected if case_in["op"] == "parse" else expected
    if "err" in expected:
        return ours.get("err") is True
    return all(
        name in ours and equal(ours[name], float(value) if name == "f" else value)
        for name, value in wanted.items()
    )
