import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.lib import cpuset


@given(st.frozensets(st.integers(0, 300)))
def test_rendering_and_parsing_are_inverse(cpus):
    assert cpuset.parse(cpuset.render(cpus)) == cpus


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("", set()),
        ("\n", set()),
        ("3", {3}),
        ("0-2,5", {0, 1, 2, 5}),
        (" 1 , 3-3\n", {1, 3}),
        ("2,0-2", {0, 1, 2}),
    ],
)
def test_lists_as_the_kernel_writes_them_are_read(text, cpus):
    assert cpuset.parse(text) == cpus


@pytest.mark.parametrize("text", ["x", "1-", "-1", "3-1", "1,,2", "1,"])
def test_a_bad_part_is_named(text):
    with pytest.raises(ValueError, match="not a CPU list"):
        cpuset.parse(text)


@pytest.mark.parametrize(
    "text",
    ["0-99999999999", "65536", "9" * 4000, "9" * 5000, ",".join(["0-65535"] * 5), "1," * 1_000_000 + "x"],
)
def test_no_text_makes_more_cpus_than_a_machine_can_have(text):
    with pytest.raises(ValueError, match="not a CPU list") as raised:
        cpuset.parse(text)
    assert len(str(raised.value)) < 300


def test_the_highest_cpu_is_read():
    assert max(cpuset.parse("0-65535")) == cpuset.MOST_CPUS - 1


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("", set()),
        ("3", {3}),
        ("0-2,5,+7", {0, 1, 2, 5, 7}),
        ("3-1", set()),
        ("4095-4096,2147483647", {4095, 4096, 2147483647}),
    ],
)
def test_lists_in_koordinators_annotations_are_read(text, cpus):
    assert cpuset.parse_koordinator(text) == cpus


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1-2-3", "invalid format: '1-2-3'"),
        ("0-4097", "end 4097 exceed the maximum available CPU count: 4096"),
        (" 1", "not a CPU"),
        ("1,", "not a CPU"),
        ("-1", "not a CPU"),
        ("2147483648", "not a CPU"),
        ("x", "not a CPU"),
        ("0-4096," * 100 + "1", "too many CPUs"),
    ],
)
def test_lists_that_koordinator_refuses_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        cpuset.parse_koordinator(text)
