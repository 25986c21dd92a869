"""What kube-scheduler's command line says about its gang scheduling."""

import pytest

from koordpy.api.scheme import decode
from koordpy.cluster.kube_scheduler_gates import KubeSchedulerPod, gang_gates

BOTH = "--feature-gates=GenericWorkload=true,GangScheduling=true"


def gates_gangs(minor: int, *words: str, tag: str = "") -> bool:
    image = f"registry.k8s.io/kube-scheduler:{tag or f'v1.{minor}.1'}"
    container = {"image": image, "command": ["kube-scheduler", *words]}
    metadata = {"name": "kube-scheduler-cp", "namespace": "kube-system"}
    found = gang_gates(decode(KubeSchedulerPod, {"metadata": metadata, "spec": {"containers": [container]}}))
    assert found.pod == "kube-system/kube-scheduler-cp"
    return found.gates_gangs


@pytest.mark.parametrize(
    "words",
    [
        (BOTH,),
        ("--feature-gates", "GangScheduling=true, GenericWorkload=True"),
        ("--feature-gates=GenericWorkload=true", "--v=2", "--feature-gates=GangScheduling=1"),
        ("--feature-gates=AllAlpha=true",),
    ],
)
def test_both_gates_are_needed_at_first(words: tuple[str, ...]) -> None:
    assert gates_gangs(35, *words)
    assert gates_gangs(36, *words)


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--feature-gates=GenericWorkload=true",),
        ("--feature-gates=GangScheduling=true",),
        ("--feature-gates=GenericWorkload=true,GangScheduling=false",),
        ("--feature-gates=AllAlpha=true,GangScheduling=false",),
        ("--feature-gates=AllBeta=true",),
        ("--feature-gates",),
        ("--config=/etc/x?--feature-gates=GangScheduling=true",),
    ],
)
def test_without_one_of_them_kube_scheduler_gates_no_gang(words: tuple[str, ...]) -> None:
    assert not gates_gangs(35, *words)


def test_from_1_37_on_one_gate_is_enough() -> None:
    assert gates_gangs(37, "--feature-gates=GenericWorkload=true")
    assert gates_gangs(38, "--feature-gates=AllBeta=true")
    assert not gates_gangs(37)
    assert not gates_gangs(37, "--feature-gates=AllAlpha=true")


def test_an_image_without_a_version_is_taken_for_an_early_release() -> None:
    assert gates_gangs(0, BOTH, tag="latest")
    assert not gates_gangs(0, "--feature-gates=GenericWorkload=true", tag="latest")
