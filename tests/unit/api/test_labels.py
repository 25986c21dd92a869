import pytest

from koordpy.api import labels, resource_names


@pytest.mark.parametrize("key", ["a", "A_b.c-1", "example.com/x", "a" * 63, f"{'a.' * 126}a/x"])
def test_label_keys(key: str) -> None:
    assert labels.key_error(key) is None


@pytest.mark.parametrize(
    "key",
    [
        "",
        "-a",
        "a-",
        "a b",
        "a\n",
        "/a",
        "a/",
        "a/b/c",
        "Example.com/x",
        "a..b/x",
        "a" * 64,
        f"{'a' * 254}/x",
        "é",
    ],
)
def test_what_is_no_label_key(key: str) -> None:
    assert labels.key_error(key)


@pytest.mark.parametrize(
    ("value", "valid"),
    [
        ("", True),
        ("a", True),
        ("a" * 63, True),
        ("a" * 64, False),
        ("-5", False),
        ("a/b", False),
        ("a\n", False),
    ],
)
def test_label_values(value: str, valid: bool) -> None:
    assert (labels.value_error(value) is None) is valid


@pytest.mark.parametrize(
    ("name", "scalar", "counted"),
    [
        ("cpu", False, True),
        ("memory", False, True),
        ("ephemeral-storage", False, True),
        ("pods", False, True),
        ("foo", False, False),
        ("nvidia.com/gpu", True, True),
        ("kubernetes.io/batch-cpu", True, True),
        ("x.kubernetes.io/y", True, True),
        ("hugepages-2Mi", True, True),
        ("attachable-volumes-csi", True, True),
        ("requests.nvidia.com/gpu", False, False),
        ("Bad.com/x", False, False),
    ],
)
def test_which_resources_the_scheduler_counts(name: str, scalar: bool, counted: bool) -> None:
    assert resource_names.is_scalar(name) is scalar
    assert resource_names.is_counted(name) is counted
