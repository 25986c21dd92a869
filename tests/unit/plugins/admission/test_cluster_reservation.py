import pytest

from .pods import pod, refusal

MARKED = {"scheduling.koordinator.sh/reserve-pod": ""}


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
def test_reserved_annotation_is_refused_whatever_its_value(operation: str) -> None:
    submitted = pod(annotations=MARKED)
    assert refusal(submitted, operation=operation, oldObject=submitted) == (
        "annotations.scheduling.koordinator.sh/reserve-pod: Forbidden: cannot set in annotations"
    )


def test_null_annotation_is_there() -> None:
    assert refusal(pod() | {"metadata": {"annotations": dict.fromkeys(MARKED)}})


def test_other_annotations_pass() -> None:
    assert refusal(pod(annotations={"scheduling.koordinator.sh/reservation-allocated": "{}"})) == ""


def test_other_operations_pass() -> None:
    assert refusal(pod(annotations=MARKED), operation="CONNECT") == ""
