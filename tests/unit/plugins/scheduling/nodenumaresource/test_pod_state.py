"""What pods ask for, by their class, their priority and their annotations."""

import json

import pytest

from koordpy.api import extension
from koordpy.api.core import Pod
from koordpy.api.scheme import decode, encode
from koordpy.scheduling.interface.status import Code
from koordpy_plugins.scheduling.nodenumaresource.attempt.node_policies import exclusive_of
from koordpy_plugins.scheduling.nodenumaresource.attempt.pod_state import PodState, parse
from koordpy_plugins.scheduling.nodenumaresource.cpus.policies import FULL_PCPUS, SPREAD_BY_PCPUS

from .numa_world import bound_pod, spec


def asked(pod: Pod, default: str = FULL_PCPUS) -> PodState:
    found, status = parse(pod, default, is_designated=False)
    assert status.is_success, status
    return found


@pytest.mark.parametrize(
    ("qos", "priority", "binds"),
    [
        ("LSE", 9500, True),
        ("LSR", 9500, True),
        ("LS", 9500, False),
        ("BE", 9500, False),
        ("SYSTEM", 9500, False),
        ("", 9500, False),
        ("LSR", 7500, False),
        ("LSR", 5500, False),
        ("LSR", None, True),
    ],
)
def test_pods_of_two_classes_with_the_priority_of_production_get_cpus_of_their_own(
    qos: str, priority: int | None, binds: bool
) -> None:
    document = json.loads(encode(bound_pod("p", qos=qos)))
    document["spec"].pop("priority", None)
    if priority is not None:
        document["spec"]["priority"] = priority
    assert asked(decode(Pod, document)).bind is binds


@pytest.mark.parametrize(
    ("fields", "default", "required", "preferred"),
    [
        ({}, FULL_PCPUS, "", FULL_PCPUS),
        ({}, "", None, None),
        ({"preferredCPUBindPolicy": "Default"}, SPREAD_BY_PCPUS, "", SPREAD_BY_PCPUS),
        ({"preferredCPUBindPolicy": SPREAD_BY_PCPUS}, FULL_PCPUS, "", SPREAD_BY_PCPUS),
        ({"requiredCPUBindPolicy": "Default"}, SPREAD_BY_PCPUS, SPREAD_BY_PCPUS, SPREAD_BY_PCPUS),
        (
            {"requiredCPUBindPolicy": FULL_PCPUS, "preferredCPUBindPolicy": SPREAD_BY_PCPUS},
            "",
            FULL_PCPUS,
            FULL_PCPUS,
        ),
        ({"preferredCPUBindPolicy": "ConstrainedBurst"}, FULL_PCPUS, None, None),
        ({"requiredCPUBindPolicy": "ConstrainedBurst"}, FULL_PCPUS, None, None),
        ({"requiredCPUBindPolicy": "Mine"}, FULL_PCPUS, None, None),
    ],
)
def test_bind_policies_of_pods_come_before_the_default(
    fields: dict[str, str], default: str, required: str | None, preferred: str | None
) -> None:
    found = asked(bound_pod("p", annotations=spec(**fields)), default)
    assert found.bind is (preferred is not None)
    assert (found.required_policy, found.preferred_policy) == (required or "", preferred or "")


def test_a_fraction_of_a_cpu_is_refused_only_where_cpus_are_bound() -> None:
    assert parse(bound_pod("p", "1500m"), FULL_PCPUS, is_designated=False)[1].code is (
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    )
    unbound = bound_pod("p", "1500m", annotations=spec(requiredCPUBindPolicy="Mine"))
    assert not asked(unbound).bind


@pytest.mark.parametrize(
    ("fields", "exclusive"),
    [
        ({}, ""),
        ({"numaTopologyPolicy": "BestEffort"}, "Required"),
        ({"numaTopologyPolicy": "BestEffort", "singleNUMANodeExclusive": "Preferred"}, "Preferred"),
        ({"singleNUMANodeExclusive": "Required"}, "Required"),
        ({"singleNUMANodeExclusive": "Mine"}, ""),
    ],
)
def test_a_numa_policy_of_the_pod_excludes_others_unless_it_says_otherwise(
    fields: dict[str, str], exclusive: str
) -> None:
    annotations = {extension.ANNOTATION_NUMA_TOPOLOGY_SPEC: json.dumps(fields)}
    assert exclusive_of(asked(bound_pod("p", annotations=annotations))) == exclusive
