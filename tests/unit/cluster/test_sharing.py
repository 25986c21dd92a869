"""Sharing makes objects smaller and never different."""

import copy

import msgspec

from koordpy.api.core import Container, ContainerStatus, Pod, PodSpec, PodStatus, Toleration, Volume
from koordpy.api.meta import Condition, ObjectMeta, OwnerReference
from koordpy.cluster.sharing import Sharing
from koordpy.lib import byte_budget


def pod(name: str) -> Pod:
    """Return a pod whose parts of different kinds look the same on the wire."""
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace="ns",
            uid=name,
            labels={"name": "x"},
            annotations={"key": name},
            owner_references=[OwnerReference(name="x")],
        ),
        spec=PodSpec(
            node_name="n1",
            node_selector={"name": "x"},
            containers=[Container(name="x")],
            init_containers=[Container(name="x")],
            tolerations=[Toleration(key="x")],
            volumes=[Volume(name="x")],
        ),
        status=PodStatus(
            phase="Running",
            conditions=[Condition(type="Ready", status="True"), Condition(type="Ready", status="True")],
            container_statuses=[ContainerStatus(name="x", container_id=name)],
        ),
    )


def test_shared_object_equals_what_it_was() -> None:
    sharing = Sharing()
    share = sharing.of(Pod)
    for name in ("a", "b", "c"):
        before, after = pod(name), pod(name)
        share(after)
        assert after == before
        assert msgspec.json.encode(after) == msgspec.json.encode(before)
        assert type(after.spec.containers[0]) is Container
        assert type(after.metadata.owner_references[0]) is OwnerReference
        assert type(after.spec.tolerations[0]) is Toleration


def test_equal_parts_are_one_object_and_different_ones_are_not() -> None:
    share = Sharing().of(Pod)
    a, b = pod("a"), copy.deepcopy(pod("b"))
    b.spec.tolerations = [Toleration(key="other")]
    share(a)
    share(b)
    assert a.spec.containers is b.spec.containers
    assert a.metadata.labels is b.metadata.labels
    assert a.status.conditions[0] is b.status.conditions[1]
    assert a.spec.tolerations is not b.spec.tolerations
    assert a.spec.scheduling_gates is b.spec.scheduling_gates
    assert a.metadata.annotations != b.metadata.annotations


def test_memory_of_parts_is_bounded_whatever_their_number_and_size() -> None:
    sharing = Sharing(part_bytes=1 << 20, text_bytes=1 << 16)
    share = sharing.of(Pod)
    before = held()
    for i in range(300):
        one = pod(f"p{i}")
        one.metadata.labels = {f"unique-{number}": str(i) for number in range(200)}
        one.spec.tolerations = [Toleration(key=f"{i}-{number}") for number in range(100)]
        one.metadata.generate_name = f"{i}" * 500
        share(one)
        parts, texts = (now - then for now, then in zip(held(), before, strict=True))
        assert parts <= 1 << 20
        assert texts <= 1 << 16


def held() -> tuple[int, int]:
    used = byte_budget.usage()
    return used["shared_parts"].held, used["shared_texts"].held
