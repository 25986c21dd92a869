"""Killing containers by their cgroups: real ones where this machine has some that can be written."""

import os
import subprocess

import pytest

from koordpy.agent.cgroups.containers import ContainerKiller
from koordpy.agent.cgroups.files import CgroupFiles
from koordpy.agent.cgroups.table import Version
from koordpy.agent.interface import CgroupError, CgroupLayout
from koordpy.api.core import Pod
from koordpy.api.scheme import decode
from tests.eventually import eventually

UID = "0c2b11f2"
POD_DIRECTORY = f"kubepods/besteffort/pod{UID}"
RUNNING = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}


def pod(*containers, states=None):
    """Return a pod whose containers have the ids `id-NAME`."""
    statuses = [
        {
            "name": name,
            "containerID": f"containerd://id-{name}",
            "state": (states or {}).get(name, RUNNING),
        }
        for name in containers
        if (states or {}).get(name, RUNNING) is not None
    ]
    return decode(
        Pod,
        {
            "metadata": {"name": "p", "namespace": "d", "uid": UID},
            "spec": {"containers": [{"name": name} for name in containers]},
            "status": {"qosClass": "BestEffort", "containerStatuses": statuses},
        },
    )


@pytest.fixture(params=["node_cgroups", "v2_cgroups"])
def tree(request):
    found = request.getfixturevalue(request.param)
    found.make(POD_DIRECTORY)
    return found


def killer(tree, **options):
    if not tree.real:
        # The kernel removes ended processes from its files; here the test does.
        options.setdefault("kill", kill_at_once)
    return ContainerKiller(tree.files, tree.layout, **options)


def kill_at_once(pid, belongs):
    if belongs():
        os.kill(pid, 9)


def is_dead(process: subprocess.Popen) -> bool:
    return process.poll() is not None


def test_processes_of_a_container_and_of_groups_below_it_are_killed_and_no_others(tree):
    for name in ("id-a", "id-a/nested", "id-b"):
        tree.make(f"{POD_DIRECTORY}/{name}")
    victims = [tree.burn(f"{POD_DIRECTORY}/id-a"), tree.burn(f"{POD_DIRECTORY}/id-a/nested")]
    spared = tree.burn(f"{POD_DIRECTORY}/id-b")
    assert killer(tree).kill(pod("a"), "test")
    assert eventually(lambda: all(map(is_dead, victims)))
    assert not is_dead(spared)


def test_all_running_containers_of_a_pod_are_killed(tree):
    burners = []
    for name in ("a", "b"):
        tree.make(f"{POD_DIRECTORY}/id-{name}")
        burners.append(tree.burn(f"{POD_DIRECTORY}/id-{name}"))
    assert killer(tree).kill(pod("a", "b"), "test")
    assert eventually(lambda: all(map(is_dead, burners)))


@pytest.mark.parametrize("state", [{"waiting": {"reason": "x"}}, {"terminated": {"exitCode": 1}}, None])
def test_a_container_that_does_not_run_ends_it(tree, state):
    tree.make(f"{POD_DIRECTORY}/id-b")
    spared = tree.burn(f"{POD_DIRECTORY}/id-b")
    assert not killer(tree).kill(pod("a", "b", states={"a": state}), "test")
    assert not is_dead(spared)


def test_a_container_without_a_cgroup_does_not_keep_others_alive(tree):
    tree.make(f"{POD_DIRECTORY}/id-b")
    burner = tree.burn(f"{POD_DIRECTORY}/id-b")
    assert killer(tree).kill(pod("a", "b"), "test")
    assert eventually(lambda: is_dead(burner))


def test_a_group_with_the_agent_itself_is_refused(tree):
    tree.make(f"{POD_DIRECTORY}/id-a")
    burner = tree.burn(f"{POD_DIRECTORY}/id-a")
    with pytest.raises(ValueError, match=f"process {burner.pid}, which is never killed"):
        killer(tree, own_pid=burner.pid).kill_group(f"{POD_DIRECTORY}/id-a")
    assert not is_dead(burner)


@pytest.mark.parametrize("pid", [0, 1])
def test_processes_that_are_not_a_containers_are_never_signalled(tmp_path, pid):
    folder = tmp_path / "cpu" / POD_DIRECTORY / "id-a"
    folder.mkdir(parents=True)
    (folder / "cgroup.procs").write_text(f"{pid}\n")
    signalled: list[int] = []
    made = ContainerKiller(
        CgroupFiles(tmp_path, Version.V1),
        CgroupLayout(systemd=False),
        kill=lambda pid, belongs: signalled.append(pid),
    )
    with pytest.raises(ValueError, match=r"process 1|hostPID"):
        made.kill_group(f"{POD_DIRECTORY}/id-a")
    assert signalled == []


@pytest.mark.parametrize(
    "directory",
    [
        "",
        "kubepods",
        "kubepods/besteffort",
        f"kubepods/../{POD_DIRECTORY}/id-a",
        "system.slice/a/b/c",
        "/a/b/c",
    ],
)
def test_directories_of_no_container_are_refused(tree, directory):
    with pytest.raises(ValueError, match="is not that of a container"):
        killer(tree).kill_group(directory)


def test_a_missing_group_is_an_error_that_names_it(tree):
    with pytest.raises(CgroupError, match="id-gone"):
        killer(tree).kill_group(f"{POD_DIRECTORY}/id-gone")
