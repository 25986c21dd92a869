import pytest

from koordpy.api import extension
from koordpy_plugins.scheduling.nodenumaresource.topology.cpu_topology import (
    CPU,
    CPUTopology,
    of_annotations,
)

from ..machines import detail, machine


def test_a_machine_is_counted():
    topology = machine(2, 2, 4, 2)
    assert (topology.num_cpus, topology.num_cores, topology.num_nodes, topology.num_sockets) == (32, 16, 4, 2)
    assert (topology.cpus_per_core, topology.cpus_per_node, topology.cpus_per_socket) == (2, 8, 16)
    assert topology.cpus_of_node(3) == frozenset(range(24, 32))
    assert topology.cpus_of_socket(0) == frozenset(range(16))
    assert topology.cpus_of_node(4) == frozenset()
    assert topology.is_valid


def test_cores_of_sockets_that_use_the_same_ids_differ():
    topology = CPUTopology([CPU.of(0, 0, 3, 0), CPU.of(1, 1, 3, 1)])
    assert topology.num_cores == 2
    assert [each.core for each in topology.cpus.values()] == [3, 65539]


def test_of_a_cpu_that_is_reported_twice_the_last_place_counts_and_the_first_is_counted_too():
    topology = CPUTopology([CPU.of(0, 0, 0, 5), CPU.of(1, 1, 1, 5)])
    assert topology.cpus == {5: CPU(5, 65537, 1, 1)}
    assert (topology.num_cpus, topology.num_cores, topology.num_nodes, topology.num_sockets) == (1, 2, 2, 2)
    assert topology.cpus_per_core == 0


def test_averages_of_irregular_machines_are_rounded_down():
    topology = CPUTopology([CPU.of(0, 0, 0, 0), CPU.of(0, 0, 0, 1), CPU.of(0, 1, 1, 2)])
    assert (topology.cpus_per_core, topology.cpus_per_node, topology.cpus_per_socket) == (1, 1, 3)


@pytest.mark.parametrize("text", [None, "{}", "null", '{"detail":[]}', '{"detail":null}'])
def test_without_cpus_a_topology_is_not_valid(text):
    annotations = {} if text is None else {extension.ANNOTATION_NODE_CPU_TOPOLOGY: text}
    topology = of_annotations(annotations)
    assert not topology.is_valid
    assert (topology.cpus_per_core, topology.cpus_per_node, topology.cpus_per_socket) == (0, 0, 0)


@pytest.mark.parametrize(
    "text", ["x", "[]", '{"detail":{}}', '{"detail":[{"id":"1"}]}', '{"detail":[{"id":1.5}]}']
)
def test_an_annotation_that_cannot_be_read_is_named(text):
    with pytest.raises(ValueError, match="cpu-topology"):
        of_annotations({extension.ANNOTATION_NODE_CPU_TOPOLOGY: text})


def test_nodes_with_equal_annotations_share_one_topology():
    annotations = [{extension.ANNOTATION_NODE_CPU_TOPOLOGY: detail(1, 2, 4, 2)} for _ in range(2)]
    assert of_annotations(annotations[0]) is of_annotations(annotations[1])
