"""Pods whose annotation replaces the resources of their spec."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from koordpy.api.core import Container, Pod, PodSpec, ResourceRequirements
from koordpy.api.meta import ObjectMeta, ResourceList
from koordpy.api.replace_resources import replaced

NAMES = ("cpu", "memory", "example.io/cpu", "example.io/gpu")


def pod(wanted: str | None, **amounts: str) -> Pod:
    """Return a pod whose container requests `amounts`."""
    return pod_of(wanted, {"cpu": "2", **amounts})


def pod_of(wanted: str | None, amounts: ResourceList) -> Pod:
    annotations = {} if wanted is None else {"pod.koordinator.sh/replace-resources": wanted}
    container = Container(name="c", resources=ResourceRequirements(requests=amounts, limits=amounts))
    return Pod(
        metadata=ObjectMeta(name="p", annotations=annotations),
        spec=PodSpec(containers=[container], init_containers=[container], overhead=amounts),
    )


def requests(wanted: str | None, **amounts: str) -> ResourceList:
    return replaced(pod(wanted, **amounts)).spec.containers[0].resources.requests


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("cpu:example.io/cpu", {"memory": "1Gi", "example.io/cpu": "2k"}),
        ("memory:example.io/memory", {"cpu": "2", "example.io/memory": "1Gi"}),
        ("memory:", {"cpu": "2"}),
        (" cpu : example.io/cpu , memory: ", {"example.io/cpu": "2k"}),
        ("cpu:memory", {"cpu": "2", "memory": "1Gi"}),
        ("cpu:,memory:cpu", {"cpu": "1Gi"}),
        ("cpu:a,cpu:b", {"b": "2k", "memory": "1Gi"}),
        ("cpu,:x,a:b:c,nope:x,", {"cpu": "2", "memory": "1Gi"}),
    ],
)
def test_resources_are_renamed_and_erased(wanted: str, expected: ResourceList) -> None:
    assert requests(wanted, memory="1Gi") == expected


@pytest.mark.parametrize(
    ("cpu", "thousandths"), [("1500m", "1500"), ("0.5", "500"), ("1u", "1"), ("3", "3k")]
)
def test_cpu_becomes_whole_thousandths(cpu: str, thousandths: str) -> None:
    assert requests("cpu:example.io/cpu", cpu=cpu) == {"example.io/cpu": thousandths}


@pytest.mark.parametrize("wanted", [None, "", "cpu", ","])
def test_pod_without_renamings_is_left_alone(wanted: str | None) -> None:
    sent = pod(wanted)
    assert replaced(sent) is sent


def test_every_list_of_containers_and_the_overhead_are_changed_but_not_the_pods_own() -> None:
    sent = pod("cpu:example.io/cpu")
    own = ResourceRequirements(requests={"cpu": "2"})
    spec = replaced(replace(sent, spec=replace(sent.spec, resources=own))).spec
    assert spec.resources == own
    lists = [spec.overhead]
    for container in (*spec.containers, *spec.init_containers):
        lists += [container.resources.requests, container.resources.limits]
    assert lists == [{"example.io/cpu": "2k"}] * 5


@given(
    st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(("", *NAMES))), max_size=5),
    st.dictionaries(st.sampled_from(NAMES), st.integers(0, 9).map(str)),
)
def test_the_pod_that_was_sent_stays_and_names_are_not_invented(
    renamings: list[tuple[str, str]], amounts: dict[str, str | int | float]
) -> None:
    sent = pod_of(",".join(f"{old}:{new}" for old, new in renamings), dict(amounts))
    after = replaced(sent).spec.containers[0].resources.requests
    assert sent.spec.containers[0].resources.requests == amounts
    assert after.keys() <= amounts.keys() | {new for _, new in renamings}
    assert len(after) <= len(amounts)
    erased = {old for old, new in dict(renamings).items() if not new}
    assert erased & after.keys() <= {new for _, new in renamings}
