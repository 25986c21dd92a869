import pytest

from .pods import container, pod, refusal

GPU = "koordinator.sh/gpu"
CORE = "koordinator.sh/gpu-core"
MEMORY = "koordinator.sh/gpu-memory"
RATIO = "koordinator.sh/gpu-memory-ratio"
SHARED = "koordinator.sh/gpu.shared"
NPU = "huawei.com/npu-core"
PATH = "pod.spec.containers[*].resources.requests"

NOTHING = "the requested GPU must be greater than zero"
NOT_WHOLE = "the requested GPU must be percentage of 100"
NO_MEMORY = "Forbidden: GPU memory and GPU memory ratio all is zero"


def refused(*requests: dict[str, str], gate: bool = True, operation: str = "CREATE") -> str:
    """Return why a pod is refused whose containers ask for these amounts."""
    submitted = pod(*(container(str(index), requests=amounts) for index, amounts in enumerate(requests)))
    gates = {"ValidatePodDeviceResource": gate}
    return refusal(submitted, gates=gates, operation=operation, oldObject=submitted).replace(f"{PATH}: ", "")


@pytest.mark.parametrize(
    ("requests", "message"),
    [
        ({GPU: "70"}, ""),
        ({GPU: "100"}, ""),
        ({GPU: "200"}, ""),
        ({GPU: "0"}, f'Invalid value: "0": {NOTHING}'),
        ({GPU: "150"}, f'Invalid value: "150": {NOT_WHOLE}'),
        ({GPU: "100", SHARED: "0"}, "Forbidden: Forbidden declare GPU and GPU share at same time"),
    ],
)
def test_whole_gpus(requests: dict[str, str], message: str) -> None:
    assert refused(requests) == message


@pytest.mark.parametrize(
    ("requests", "message"),
    [
        ({SHARED: "2", RATIO: "100", CORE: "100"}, ""),
        ({SHARED: "2", MEMORY: "8Gi"}, ""),
        ({SHARED: "2"}, NO_MEMORY),
        ({SHARED: "0", MEMORY: "8Gi"}, f'Invalid value: "0": {NOTHING}'),
        (
            {SHARED: "1", MEMORY: "8Gi", RATIO: "50"},
            "Forbidden: declare GPU memory and GPU memory ratio at same time",
        ),
        (
            {SHARED: "2", MEMORY: "8Gi", CORE: "101"},
            'Invalid value: "101": the requested gpuCore must multiple of shared',
        ),
        (
            {SHARED: "2", RATIO: "101"},
            'Invalid value: "101": the requested gpuMemoryRatio must multiple of shared',
        ),
        ({SHARED: "1", NPU: "1"}, ""),
        ({SHARED: "0"}, f'[Invalid value: "0": {NOTHING}, {NO_MEMORY}]'),
    ],
)
def test_parts_of_gpus(requests: dict[str, str], message: str) -> None:
    assert refused(requests) == message


def test_the_same_error_of_two_containers_is_reported_once() -> None:
    assert (
        refused({SHARED: "2"}, {SHARED: "2"}, {GPU: "0"}) == f'[{NO_MEMORY}, Invalid value: "0": {NOTHING}]'
    )


def test_updates_are_checked_and_other_operations_are_not() -> None:
    assert refused({SHARED: "2"}, operation="UPDATE") == NO_MEMORY
    assert refused({SHARED: "2"}, operation="CONNECT") == ""


def test_gate_switches_it_on() -> None:
    assert refused({SHARED: "2"}, gate=False) == ""
