"""The curves of running pods: shared, evaluated at a time, and forgotten with their last pod."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.embedded.kubelet.curve_table import CurveTable
from koordpy.embedded.kubelet.curves import Curve, Step


def steps(*values: tuple[float, float]) -> Curve:
    return Curve(factor=1.0, shape="steps", steps=tuple(Step(at=at, value=value) for at, value in values))


def test_pods_share_a_curve_and_the_last_one_frees_its_number() -> None:
    table, curve = CurveTable(), steps((10.0, 3.0))
    first, second = table.take(curve), table.take(curve)
    assert first == second
    table.release(first)
    assert table.factors(10.0)[second] == 3.0
    table.release(second)
    assert table.take(Curve(factor=1.0, noise=0.5)) == first
    assert table.factors(10.0)[first] == 1.0
    assert table.noises[first] == 0.5


@given(st.lists(st.integers(0, 50), min_size=1, max_size=20, unique=True).map(sorted), st.integers(-5, 60))
def test_the_last_step_counts_and_the_base_before_the_first(times: list[int], now: int) -> None:
    curve = steps(*[(float(at), float(at) + 2.0) for at in times])
    table = CurveTable()
    passed = [at for at in times if at <= now]
    assert table.factors(0.0).size == 0
    number = table.take(curve)
    assert table.factors(float(now))[number] == (passed[-1] + 2.0 if passed else 1.0)


def test_a_curve_since_the_start_of_pods_is_named_as_such() -> None:
    table = CurveTable()
    curve = steps((10.0, 3.0)).model_copy(update={"since": "running"})
    number = table.take(curve)
    assert list(table.own_times) == [number]
    assert table.factor(number, 9.0) == pytest.approx(1.0)
    table.release(number)
    assert list(table.own_times) == []
