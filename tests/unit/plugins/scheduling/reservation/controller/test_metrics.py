from collections.abc import Iterator

import pytest
from prometheus_client import REGISTRY

from koordpy.api.reservation import Reservation
from koordpy.api.scheme import decode
from koordpy_plugins.scheduling.reservation.controller import metrics


def of(phase: str, **status: object) -> Reservation:
    return decode(Reservation, {"metadata": {"name": "r"}, "status": {"phase": phase, **status}})


def value(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(f"scheduler_reservation_{name}", {"name": "r", **labels})


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    yield
    metrics.forget()


def test_one_phase_is_1_and_the_others_0() -> None:
    metrics.record_all([of("")])
    assert [value("status_phase", phase=phase) for phase in metrics.PHASES] == [1, 0, 0, 0]
    metrics.record_all([of("Failed")])
    assert [value("status_phase", phase=phase) for phase in metrics.PHASES] == [0, 0, 0, 1]


def test_amounts_have_units_and_what_is_used_is_a_ratio() -> None:
    metrics.record_all(
        [
            of(
                "Available",
                allocatable={"cpu": "4", "memory": "8Gi", "pods": "0"},
                allocated={"cpu": "1500m", "memory": "2Gi"},
            )
        ]
    )
    assert value("resource", type="allocatable", resource="cpu", unit="core") == 4
    assert value("resource", type="allocated", resource="cpu", unit="core") == 1.5
    assert value("resource", type="utilization", resource="cpu", unit="ratio") == 0.375
    assert value("resource", type="allocated", resource="memory", unit="Gi") == 2
    assert value("resource", type="allocatable", resource="pods", unit="raw") == 0
    assert value("resource", type="utilization", resource="pods", unit="ratio") is None


def test_a_reservation_that_holds_nothing_yet_has_no_amounts() -> None:
    metrics.record_all([of("Pending")])
    assert value("resource", type="allocatable", resource="cpu", unit="core") is None


def test_reservations_that_are_gone_are_forgotten() -> None:
    metrics.record_all([of("Pending")])
    metrics.record_all([])
    assert value("status_phase", phase="Pending") is None
