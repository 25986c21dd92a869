"""CPUs, NUMA nodes and GPUs, as tests/integration/devices gives them out, beside kube-scheduler itself."""

from tests.e2e.suites import assert_passes


def test_cpus_numa_nodes_and_gpus_are_given_out_beside_kube_scheduler() -> None:
    assert_passes("tests/integration/devices")
