"""Why a pod waits that was never sent to koordpy, beside kube-scheduler itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.controlplane.process import free_port
from tests.e2e.serving import Document, Koordpy, add_node, create, nodes_of, pod
from tests.eventually import eventually


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane() as made:
        made.install_crds()
        add_node(made, "n0", "1")
        yield made


@pytest.fixture
def koordpy(plane: ControlPlane, tmp_path: Path) -> Iterator[Koordpy]:
    made = Koordpy(plane, tmp_path)
    try:
        yield made
    finally:
        plane.stop_scheduler()
        made.process.stop()


def causes(koordpy: Koordpy, name: str) -> list[str]:
    return [cause["cause"] for cause in koordpy.history(name)["causes"]]


def steps(koordpy: Koordpy, name: str) -> list[str]:
    return [step["what"] for step in koordpy.history(name)["steps"]]


def shipped(koordpy: Koordpy) -> Document:
    return koordpy.entry("kube-scheduler-config.yaml")


def test_no_scheduler_runs_and_then_one_without_the_extender(plane: ControlPlane, koordpy: Koordpy) -> None:
    create(plane, pod("unseen"))
    # A pod is given five seconds before its silence means something.
    assert eventually(lambda: causes(koordpy, "unseen") == ["SchedulerNotRunning"])
    plane.start_scheduler({**shipped(koordpy), "extenders": []})
    assert eventually(lambda: nodes_of(plane)["unseen"] == "n0"), plane.logs()
    assert eventually(lambda: steps(koordpy, "unseen")[-1] == "bound-by-others")
    assert causes(koordpy, "unseen") == ["AlreadyBound", "ExtenderNotConfigured"]
    plane.stop_scheduler()
    create(plane, pod("waits"))
    assert eventually(lambda: causes(koordpy, "waits")[0] == "ExtenderNotConfigured")


def test_an_extender_that_kube_scheduler_cannot_reach(plane: ControlPlane, koordpy: Koordpy) -> None:
    document = shipped(koordpy)
    for entry in document["extenders"]:
        entry["urlPrefix"] = f"http://127.0.0.1:{free_port()}/extender"
    plane.start_scheduler(document)
    create(plane, pod("unreachable"))
    assert eventually(lambda: "reported" in steps(koordpy, "unreachable")), plane.logs()
    found = koordpy.history("unreachable")
    assert [cause["cause"] for cause in found["causes"]] == ["ExtenderUnreachable"]
    assert "connection refused" in found["causes"][0]["message"]
    assert found["cycles"] == 0


def test_a_whole_life_in_full_mode(plane: ControlPlane, koordpy: Koordpy) -> None:
    plane.start_scheduler(shipped(koordpy))
    create(plane, pod("placed"))
    assert eventually(lambda: steps(koordpy, "placed")[-1] == "bound"), plane.logs()
    assert steps(koordpy, "placed") == ["seen", "filtered", "binding", "bound"]
    found = koordpy.history("placed")
    assert (found["state"], found["node"], found["causes"]) == ("bound", "n0", [])


def test_managed_resources_keep_pods_away(plane: ControlPlane, koordpy: Koordpy) -> None:
    document = shipped(koordpy)
    filters, binds = document["extenders"]
    # kube-scheduler refuses to have a resource managed by two entries.
    managed = [{"name": "example.com/widget"}]
    document["extenders"] = [{**filters, "bindVerb": binds["bindVerb"], "managedResources": managed}]
    plane.start_scheduler(document)
    create(plane, pod("plain"))
    assert eventually(lambda: steps(koordpy, "plain")[-1] == "bound-by-others"), plane.logs()
    assert koordpy.history("plain")["cycles"] == 0
