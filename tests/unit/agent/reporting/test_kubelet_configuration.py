import logging

from koordpy.agent.cgroups import kubelet
from koordpy.agent.cgroups.kubelet import Kubelet
from koordpy.agent.reporting.kubelet_configuration import KubeletConfiguration

STATIC = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
cpuManagerPolicyOptions: {full-pcpus-only: "true"}
kubeReserved: {cpu: 500m, memory: 1Gi}
topologyManagerPolicy: restricted
"""


def test_files_are_merged_in_their_order_and_defaults_are_kubelets(tmp_path):
    (tmp_path / "config.yaml").write_text(STATIC)
    (tmp_path / "config.json.d").mkdir()
    (tmp_path / "config.json.d" / "10.conf").write_text("kubeReserved: {cpu: 2}\ntopologyManagerScope: pod\n")
    assert KubeletConfiguration(kubelet.find(tmp_path, tmp_path / "proc")).read() == {
        "cpuManagerPolicy": "static",
        "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
        "kubeReserved": {"cpu": "2", "memory": "1Gi"},
        "topologyManagerPolicy": "restricted",
        "topologyManagerScope": "pod",
    }


def test_the_command_line_overrides_files(tmp_path):
    (tmp_path / "config.yaml").write_text(STATIC)
    process = tmp_path / "proc" / "7"
    process.mkdir(parents=True)
    (process / "comm").write_text("kubelet\n")
    arguments = ["kubelet", "--cpu-manager-policy=none", "--reserved-cpus", "0-1", "--kube-reserved=cpu=1"]
    (process / "cmdline").write_text("\0".join([*arguments, ""]))
    found = KubeletConfiguration(kubelet.find(tmp_path, tmp_path / "proc")).read()
    assert (found["cpuManagerPolicy"], found["reservedSystemCPUs"]) == ("none", "0-1")
    assert found["kubeReserved"] == {"cpu": "1", "memory": "1Gi"}


def test_a_changed_file_is_read_again_and_a_broken_one_is_named(tmp_path, caplog):
    file = tmp_path / "config.yaml"
    configuration = KubeletConfiguration(Kubelet(files=(file,)))
    assert configuration.read() == {}
    file.write_text(STATIC)
    assert configuration.read()["cpuManagerPolicy"] == "static"
    file.write_text("cpuManagerPolicy: none\n")
    assert configuration.read()["cpuManagerPolicy"] == "none"
    file.write_text("cpuManagerPolicy: [static\n")
    with caplog.at_level(logging.WARNING):
        assert configuration.read() == {}
    assert str(file) in caplog.text
