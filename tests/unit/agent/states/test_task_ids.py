from pathlib import Path

from koordpy.agent.cgroups.files import CgroupFiles, Version
from koordpy.agent.interface import CgroupLayout, FlagSet
from koordpy.agent.states.informer import StatesInformer
from koordpy.agent.states.kubelet_pods import KubeletPods
from koordpy.agent.states.task_ids import PodTaskIds
from koordpy.api.core import Pod
from koordpy.api.scheme import decode
from koordpy.testing.cluster import cluster


def test_tasks_of_containers_and_of_the_sandbox(tmp_path: Path) -> None:
    pod = {
        "metadata": {"name": "p", "namespace": "d", "uid": "u"},
        "spec": {"nodeName": "n1", "containers": [{"name": "c"}]},
        "status": {"containerStatuses": [{"name": "c", "containerID": "containerd://one"}]},
    }
    known = cluster(decode(Pod, pod))
    states = StatesInformer(known, "n1", CgroupLayout(systemd=True))
    flags = FlagSet()
    KubeletPods.init_flags(flags)
    PodTaskIds.init_flags(flags)
    directory = tmp_path / states.pods()[0].cgroup_dir
    for name, ids in (("one", "7\n8\n"), ("sandbox", "3\n")):
        folder = directory / f"cri-containerd-{name}.scope"
        folder.mkdir(parents=True)
        (folder / "cgroup.threads").write_text(ids)
    assert states.pods()[0].container_task_ids == {}
    PodTaskIds(states, CgroupFiles(tmp_path, Version.V2), flags).read()
    assert states.pods()[0].container_task_ids == {"containerd://one": (7, 8), "containerd://sandbox": (3,)}
