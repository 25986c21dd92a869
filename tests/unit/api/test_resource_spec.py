"""The annotations resource-spec, numa-topology-spec and resource-status, read and written as Go does."""

import pytest

from koordpy.api import resource_spec, resource_status
from koordpy.api.extension import (
    ANNOTATION_NUMA_TOPOLOGY_SPEC,
    ANNOTATION_RESOURCE_SPEC,
    ANNOTATION_RESOURCE_STATUS,
)
from koordpy.api.quantity import parse
from koordpy.api.resource_spec import NUMATopologySpec, ResourceSpec
from koordpy.api.resource_status import NUMANodeResource, ResourceStatus


def test_a_pod_without_the_annotations_asks_for_nothing() -> None:
    assert resource_spec.of({}) == ResourceSpec()
    assert resource_spec.numa_topology_of({}) == NUMATopologySpec()


def test_names_match_in_any_case_and_unknown_policies_are_kept() -> None:
    text = '{"RequiredCPUBindPolicy":"FullPCPUs","preferredcpuexclusivepolicy":"Odd"}'
    assert resource_spec.of({ANNOTATION_RESOURCE_SPEC: text}) == ResourceSpec("FullPCPUs", "", "Odd")
    text = '{"numaTopologyPolicy":"Restricted","singleNUMANodeExclusive":"Preferred"}'
    found = resource_spec.numa_topology_of({ANNOTATION_NUMA_TOPOLOGY_SPEC: text})
    assert found == NUMATopologySpec("Restricted", "Preferred")


@pytest.mark.parametrize("text", ["", "[]", '{"preferredCPUBindPolicy":1}'])
def test_a_broken_annotation_is_named(text: str) -> None:
    with pytest.raises(ValueError, match=ANNOTATION_RESOURCE_SPEC):
        resource_spec.of({ANNOTATION_RESOURCE_SPEC: text})


@pytest.mark.parametrize("text", ["", "[]", '{"numaTopologyPolicy":{}}'])
def test_a_broken_topology_annotation_is_named(text: str) -> None:
    with pytest.raises(ValueError, match=ANNOTATION_NUMA_TOPOLOGY_SPEC):
        resource_spec.numa_topology_of({ANNOTATION_NUMA_TOPOLOGY_SPEC: text})


def test_fields_are_written_in_order_without_empty_ones() -> None:
    assert ResourceSpec().text() == "{}"
    assert ResourceSpec("FullPCPUs", "", "<x>").text() == (
        '{"requiredCPUBindPolicy":"FullPCPUs","preferredCPUExclusivePolicy":"\\u003cx\\u003e"}'
    )


def test_a_status_is_written_as_it_is_read() -> None:
    status = ResourceStatus(
        "0-3", (NUMANodeResource(0, {"memory": parse("4Gi"), "cpu": parse("4")}), NUMANodeResource(1))
    )
    text = status.text()
    assert text == (
        '{"cpuset":"0-3","numaNodeResources":[{"node":0,"resources":{"cpu":"4","memory":"4Gi"}},{"node":1}]}'
    )
    assert resource_status.of({ANNOTATION_RESOURCE_STATUS: text}) == status
    assert ResourceStatus().text() == "{}"
