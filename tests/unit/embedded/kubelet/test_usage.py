"""Usage of pods over time, and the resulting usage of nodes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.embedded.kubelet.curves import Curve, Step
from koordpy.embedded.kubelet.usage import Usage
from koordpy.simulation.planned import PlannedPod

FLAT = Curve(factor=1.0)


def usage(nodes: int = 2, cpu: float = 1000.0) -> Usage:
    made = Usage()
    for i in range(nodes):
        made.add(f"n{i}", (cpu, 1000.0), (100.0, 50.0))
        made.join(f"n{i}")
    return made


def pod(cpu: float, curve: Curve = FLAT, number: int = 0) -> PlannedPod:
    return PlannedPod({}, "w", 0.0, None, (curve, FLAT), (cpu, 10.0), number=number)


def used(of: Usage, now: float = 0.0) -> Any:
    return of.of_nodes(of.of_pods(now))[:, 0].tolist()


def test_a_node_uses_what_its_pods_do_and_itself() -> None:
    cluster = usage()
    slots = [cluster.begin(pod(200), ("ns", f"p{i}"), "n1", 0.0) for i in range(3)]
    assert used(cluster) == [100.0, 700.0]
    cluster.end(slots[1])
    assert used(cluster) == [100.0, 500.0]


def test_a_node_uses_no_more_than_it_has() -> None:
    cluster = usage()
    cluster.begin(pod(5000), ("ns", "p"), "n0", 0.0)
    assert used(cluster) == [1000.0, 100.0]


def test_a_node_that_is_gone_uses_nothing() -> None:
    cluster = usage()
    cluster.leave("n0")
    assert used(cluster) == [0.0, 100.0]


def test_a_sine_is_highest_at_its_peak_and_lowest_half_a_period_later() -> None:
    cluster = usage()
    curve = Curve(factor=1.0, shape="sine", period=100.0, peak_at=25.0, amplitude=0.5)
    cluster.begin(pod(200, curve), ("ns", "p"), "n0", 0.0)
    assert used(cluster, 25.0)[0] == pytest.approx(100 + 300)
    assert used(cluster, 75.0)[0] == pytest.approx(100 + 100)
    assert used(cluster, 0.0)[0] == pytest.approx(100 + 200)


def test_steps_may_count_from_the_pods_start() -> None:
    cluster = usage()
    steps = (Step(at=10.0, value=2.0), Step(at=20.0, value=0.0))
    curve = Curve(factor=1.0, shape="steps", steps=steps, since="running")
    cluster.begin(pod(200, curve), ("ns", "p"), "n0", 100.0)
    assert [used(cluster, at)[0] for at in (105.0, 110.0, 119.0, 125.0)] == [300.0, 500.0, 500.0, 100.0]


def test_noise_depends_on_pod_and_time_alone() -> None:
    curve = Curve(factor=1.0, noise=0.2)
    one, other = usage(cpu=1e9), usage(cpu=1e9)
    for number in (3, 1, 2):
        one.begin(pod(1000, curve, number), ("ns", f"p{number}"), "n0", 0.0)
    for number in (1, 2, 3):
        other.begin(pod(1000, curve, number), ("ns", f"p{number}"), "n0", 50.0)
    assert used(one, 60.0) == pytest.approx(used(other, 60.0))
    assert used(one, 60.0) != pytest.approx(used(one, 61.0))


@given(st.lists(st.integers(0, 1 << 40), min_size=200, max_size=200, unique=True), st.floats(0, 1e8))
def test_noise_stays_within_its_share_and_averages_out(numbers: list[int], now: float) -> None:
    cluster = usage(cpu=1e12)
    curve = Curve(factor=1.0, noise=0.5)
    for number in numbers:
        cluster.begin(pod(1000, curve, number), ("ns", str(number)), "n0", 0.0)
    values = cluster.of_pods(now)[:, 0]
    values = values[values > 0]
    assert len(values) == 200
    assert values.min() >= 500
    assert values.max() <= 1500
    assert abs(values.mean() - 1000) < 150


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 500)), max_size=600), st.data())
def test_beginning_and_ending_in_any_order_leaves_the_sum_of_what_runs(
    pods: list[tuple[int, int]], data: st.DataObject
) -> None:
    cluster = usage(4, cpu=1e9)
    running = {}
    for number, (node, cpu) in enumerate(pods):
        slot = cluster.begin(pod(cpu), ("ns", str(number)), f"n{node}", 0.0)
        running[slot] = (node, cpu)
        if data.draw(st.booleans()):
            gone = data.draw(st.sampled_from(sorted(running)))
            cluster.end(gone)
            del running[gone]
    expected = np.full(4, 100.0)
    for node, cpu in running.values():
        expected[node] += cpu
    assert used(cluster) == expected.tolist()
    assert sorted(slot for row in range(4) for slot, _, _ in cluster.on(row)) == sorted(running)
