"""Events on pods about reservations."""

import pytest

from koordpy.scheduling.explain.reservation_event import reservation_note


@pytest.mark.parametrize(
    ("message", "note"),
    [
        ("", ""),
        ("0/3 nodes are available: 3 Insufficient cpu.", ""),
        ("running PreFilter: 8 Reservation(s) matched owner total", ""),
        (
            "0/1 nodes are available: 3 Reservation(s) didn't match affinity rules, 1 Reservation(s) is "
            "unschedulable, 2 Reservation(s) Insufficient cpu, 1 Insufficient cpu, 1 Insufficient memory. "
            '8 Reservation(s) matched owner total, Gang "d/g" gets rejected due to pod is unschedulable.',
            "0/8 reservations are available: 3 Reservation(s) didn't match affinity rules, 1 Reservation(s) "
            "is unschedulable, 2 Reservation(s) Insufficient cpu.",
        ),
        (
            "0/2 nodes are available: 1 Reservation(s) for node reason that node(s) had taints, "
            "1 Reservation(s) is unavailable, 2 Reservation(s) exactly matches the requested reservation "
            "name, 4 Reservation(s) matched owner total.",
            "0/4 reservations are available: 2 Reservation(s) exactly matches the requested reservation "
            "name, 1 Reservation(s) is unavailable, 1 Reservation(s) node(s) had taints.",
        ),
        (
            "0/1 nodes are available: 1 Reservation(s) Insufficient cpu, requested: 4000, used: 2000, "
            "1 Reservation(s) matched owner total.",
            "0/1 reservations are available: 1 Reservation(s) Insufficient cpu.",
        ),
        (
            "0/1 nodes are available: 0 Reservation(s) matched owner total.",
            "0/0 reservations are available: .",
        ),
    ],
)
def test_a_message_about_nodes_becomes_one_about_reservations(message: str, note: str) -> None:
    assert reservation_note(message) == note
