"""Light mode beside kube-scheduler itself: it binds, koordpy filters and scores; and what koordpy then "
"knows."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from koordpy import data
from tests import loopback
from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.serving import Document, Koordpy, add_node, create, nodes_of, pod
from tests.eventually import eventually

HOT, COOL, PODS = ("hot-0", "hot-1"), ("cool-0", "cool-1", "cool-2"), 30


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane() as made:
        made.install_crds()
        yield made


def test_kube_scheduler_binds_by_itself_and_hot_nodes_are_avoided(
    plane: ControlPlane, tmp_path: Path
) -> None:
    for name in (*HOT, *COOL):
        add_node(plane, name, "13" if name in HOT else "1")
    koordpy = Koordpy(plane, tmp_path, mode="light")
    try:
        scheduler = koordpy.entry("kube-scheduler-config-light.yaml")
        plane.start_scheduler(scheduler)
        create(plane, pod("huge", cpu="64"), pod("gated", schedulingGates=[{"name": "example.com/wait"}]))
        create(plane, pod("foreign", schedulerName="nobody"), *(pod(f"p{i}") for i in range(PODS)))
        assert eventually(lambda: all(nodes_of(plane)[f"p{i}"] for i in range(PODS))), plane.logs()
        assert {nodes_of(plane)[f"p{i}"] for i in range(PODS)} == set(COOL)
        tell_the_lives(plane, koordpy)
        examine(plane, koordpy, tmp_path, scheduler)
    finally:
        plane.stop_scheduler()
        koordpy.process.stop()


def tell_the_lives(plane: ControlPlane, koordpy: Koordpy) -> None:
    """What koordpy knows of pods that were placed, and why the others wait."""

    def steps(name: str) -> list[str]:
        return [step["what"] for step in koordpy.history(name)["steps"]]

    assert eventually(lambda: steps("p0")[-1] == "bound")
    assert steps("p0") == ["seen", "filtered", "bound"]
    found = koordpy.history("p0")
    assert (found["state"], found["node"]) == ("bound", nodes_of(plane)["p0"])
    assert found["steps"][1]["refusedBy"] == {"LoadAwareScheduling": len(HOT)}

    def causes(name: str) -> list[str]:
        return [cause["cause"] for cause in koordpy.history(name)["causes"]]

    assert eventually(lambda: "reported" in steps("huge"))
    assert causes("huge") == ["RefusedInTree"]
    assert "Insufficient cpu" in koordpy.history("huge")["causes"][0]["message"]
    assert causes("gated") == ["Gated"]
    assert causes("foreign") == ["OtherScheduler"]
    text = koordpy.run("why", "--history", "default/p0", "--debug-server", koordpy.debug_url)
    assert text.returncode == 0, text.stderr
    assert "3 of 5 nodes are feasible: LoadAwareScheduling refused 2" in text.stdout
    # koordpy does not bind in light mode; a bind call gets an error that names what to change.
    body = {"PodName": "p0", "PodNamespace": "default", "PodUID": found["uid"], "Node": found["node"]}
    url = f"http://127.0.0.1:{koordpy.ports['extender']}/extender/bind"
    assert "extender.mode: full" in loopback.post(url, json=body).json()["Error"]


def examine(plane: ControlPlane, koordpy: Koordpy, folder: Path, scheduler: Document) -> None:
    """The doctor agrees with what works, and sees a bindVerb that must not be there."""
    create(plane, *yaml.safe_load_all(data.deploy("priorityclasses", "koordinator.yaml").read_text()))
    file = folder / "kube-scheduler.yaml"
    file.write_text(yaml.safe_dump({**scheduler, "leaderElection": {"leaderElect": False}}))
    options = ("doctor", "--config", str(koordpy.config), "--scheduler-config", str(file))
    create(plane, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "koordinator-system"}})

    def is_well() -> bool:
        return koordpy.run(*options).returncode == 0

    assert eventually(is_well), koordpy.run(*options).stdout  # once the Lease can be had
    entries = [{**entry, "bindVerb": "bind"} for entry in scheduler["extenders"]]
    file.write_text(yaml.safe_dump({**scheduler, "extenders": entries}))
    ill = koordpy.run(*options)
    assert ill.returncode == 1
    assert "koordpy runs in light mode: every bind is refused" in ill.stdout
    # The configuration enables leader election, and there has never been a leader.
    assert "kube-scheduler was never elected" in ill.stdout
