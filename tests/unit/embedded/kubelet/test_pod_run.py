"""The run of a pod over time."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from koordpy.embedded.kubelet.plan import ContainerPlan, PodPlan
from koordpy.embedded.kubelet.pod_run import PodRun, resumed

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def run(
    *containers: ContainerPlan, restart: str = "Always", start_after: float = 0.0, **more: float
) -> PodRun:
    plan = PodPlan(containers, restart, start_after, **more)  # type: ignore[arg-type]
    return PodRun("uid", plan, 0.0, EPOCH, "1.1.1.1", "2.2.2.2")


def main(run_for: float | None = None, code: int = 0, name: str = "c") -> ContainerPlan:
    return ContainerPlan(name, "i", run_for, code)


def test_a_pod_that_runs_for_ever_needs_no_further_attention() -> None:
    pod = run(main(), start_after=2.0)
    assert pod.advance(0.0) == 2.0
    assert pod.phase == "Pending"
    assert pod.advance(2.0) is None
    assert pod.phase == "Running"


def test_restarts_come_at_once_then_after_10_20_and_40_seconds() -> None:
    pod = run(main(1.0, 1))
    now, restarts = 0.0, list[float]()
    while len(restarts) < 4:
        before = pod.containers[0].restarts
        following = pod.advance(now)
        if pod.containers[0].restarts > before:
            restarts.append(now)
        assert following is not None
        now = following
    assert restarts == [1.0, 12.0, 33.0, 74.0]


def test_the_backoff_is_at_most_five_minutes() -> None:
    pod = run(main(0.0, 1))
    pod.advance(20_000.0)
    assert pod.containers[0].backoff == 300.0
    assert 60 < pod.containers[0].restarts < 80


def test_with_on_failure_only_failures_restart() -> None:
    failing = run(main(1.0, 1), restart="OnFailure")
    failing.advance(5.0)
    assert (failing.phase, failing.containers[0].restarts) == ("Running", 1)
    done = run(main(1.0, 0), restart="OnFailure")
    done.advance(5.0)
    assert (done.phase, done.containers[0].restarts) == ("Succeeded", 0)


def test_a_pod_ends_when_its_last_container_has_ended() -> None:
    pod = run(main(5.0), main(9.0, 2, "d"), restart="Never")
    assert pod.advance(6.0) == 9.0
    assert pod.phase == "Running"
    assert pod.advance(9.0) is None
    assert pod.phase == "Failed"


def test_a_failed_init_container_fails_a_pod_that_may_not_restart() -> None:
    pod = run(ContainerPlan("init", "i", 1.0, 1, is_init=True), main(), restart="Never")
    pod.advance(2.0)
    assert pod.phase == "Failed"
    assert "waiting" in pod.status()["containerStatuses"][0]["state"]


def test_sidecars_end_with_the_pod() -> None:
    side = ContainerPlan("side", "s", None, is_init=True, is_sidecar=True)
    pod = run(side, main(3.0), restart="Never")
    pod.advance(1.0)
    assert pod.status()["initContainerStatuses"][0]["state"].keys() == {"running"}
    pod.advance(3.0)
    assert pod.phase == "Succeeded"
    assert pod.status()["initContainerStatuses"][0]["state"].keys() == {"terminated"}


@given(
    st.lists(st.floats(0.1, 200.0), min_size=1, max_size=6),
    st.floats(0.0, 50.0),
    st.integers(0, 1),
    st.sampled_from(["Always", "OnFailure", "Never"]),
)
def test_steps_of_any_length_lead_to_the_same_state(
    steps: list[float], run_for: float, code: int, restart: str
) -> None:
    small = run(main(run_for, code), main(None if restart == "Always" else 3.0, name="d"), restart=restart)
    large = run(main(run_for, code), main(None if restart == "Always" else 3.0, name="d"), restart=restart)
    now = 0.0
    for step in steps:
        now += step
        small.advance(now)
    large.advance(now)
    assert small.phase == large.phase
    assert [c.restarts for c in small.containers] == [c.restarts for c in large.containers]
    assert [c.started for c in small.containers] == [c.started for c in large.containers]


def test_a_run_continues_from_its_status() -> None:
    first = run(main(100.0, 1))
    first.advance(150.0)
    status = first.status()
    second = resumed(run(main(100.0, 1)), status)
    assert second.advance(150.0) == first.advance(150.0) == 200.0
    assert second.status()["containerStatuses"] == status["containerStatuses"]
