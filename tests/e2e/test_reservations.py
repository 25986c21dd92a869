"""The life of Reservations, as tests/integration/reservations tells it, beside kube-scheduler itself."""

from tests.e2e.suites import assert_passes


def test_reservations_live_beside_kube_scheduler() -> None:
    assert_passes("tests/integration/reservations")
