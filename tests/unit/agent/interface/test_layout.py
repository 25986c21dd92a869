import pytest

from koordpy.agent.interface.layout import CgroupLayout, kubelet_uid
from koordpy.api.core import Pod
from koordpy.api.scheme import decode

HASH = "b1946ac92492d2347c6235b4d2611184"


def static_pod() -> Pod:
    """Return a static pod as the API server has it, with a UID of its own."""
    annotations = {"kubernetes.io/config.hash": HASH, "kubernetes.io/config.mirror": HASH}
    metadata = {"name": "etcd-n1", "namespace": "kube-system", "uid": "0-1", "annotations": annotations}
    return decode(Pod, {"metadata": metadata, "status": {"qosClass": "Burstable"}})


@pytest.mark.parametrize(
    ("systemd", "directory"),
    [
        (True, f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{HASH}.slice"),
        (False, f"kubepods/burstable/pod{HASH}"),
    ],
)
def test_the_directory_of_a_static_pod_has_the_uid_that_kubelet_gave_to_it(systemd, directory):
    assert CgroupLayout(systemd).pod(static_pod()) == directory
    assert kubelet_uid(static_pod()) == HASH


def test_other_pods_have_one_uid():
    assert kubelet_uid(decode(Pod, {"metadata": {"name": "p", "uid": "0-1"}})) == "0-1"
