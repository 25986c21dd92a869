"""What an audit says it has checked, what persists between two lists, and audits that follow changes."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from koordpy.audit.auditing import NAMES, confirmed
from koordpy.audit.auditor import Auditor
from tests.unit.audit.books import findings, gpu, gpus, node, pod, quota, report, reservation, topology


def test_every_check_says_whether_it_had_anything_to_check() -> None:
    said = {item.check: item.outcome.value for item in report(node(), pod("a")).checks}
    assert tuple(said) == NAMES
    assert said["node-resources"] == said["annotations"] == "done"
    assert said["cpus"] == said["devices"] == said["quotas"] == said["reservations"] == "nothing to check"


def test_a_kind_that_cannot_be_read_makes_a_check_impossible() -> None:
    found = report(node(), ElasticQuota="no right to list them")
    quotas = next(item for item in found.checks if item.check == "quotas")
    assert (quotas.outcome.value, quotas.reason) == ("not possible", "ElasticQuota: no right to list them")


def test_counts_say_how_much_was_checked() -> None:
    found = report(
        node(), node("n2"), topology(), gpus(2), quota("q"), reservation("r"), pod("a", cpuset="0-3")
    )
    assert found.objects == {
        "Node": 2,
        "Pod": 1,
        "Reservation": 1,
        "NodeResourceTopology": 1,
        "Device": 1,
        "ElasticQuota": 1,
    }
    assert {item.check: item.counts for item in found.checks}["cpus"] == {
        "nodes": 1,
        "CPU sets": 1,
        "CPUs": 4,
    }


def test_errors_come_first_and_exit_codes_say_whether_there_are_findings() -> None:
    bad = report(node(), quota("q", used={"cpu": "1"}), pod("a", cpuset="0"), pod("b", cpuset="0"))
    assert [found.severity.value for found in bad.findings] == ["error", "warning"]
    assert (bad.errors, bad.warnings, bad.exit_code) == (1, 1, 1)
    assert report(node()).exit_code == 0


def test_only_what_persists_is_confirmed() -> None:
    first = report(node(), pod("a", cpuset="0"), pod("b", cpuset="0"), pod("c", requests={"cpu": "17"}))
    second = report(node(), pod("c", requests={"cpu": "18"}), pod("d", cpuset="1"), pod("e", cpuset="1"))
    assert [found.what for found in confirmed(first, second).findings] == ["cpu"]
    assert confirmed(first, second).errors == 1


def test_a_status_that_follows_is_not_confirmed() -> None:
    late = [report(node(), quota("q", used={"cpu": used})) for used in ("1", "2")]
    assert confirmed(*late).findings == []
    assert len(confirmed(late[0], late[0]).findings) == 1


def test_an_auditor_follows_changes() -> None:
    auditor = Auditor()
    for obj in (node(), topology(), pod("a", cpuset="0")):
        auditor.apply(obj)
    assert auditor.findings() == []
    auditor.apply(pod("b", cpuset="0"))
    assert [found.what for found in auditor.findings()] == ["CPU 0"]
    assert [found.what for found in auditor.findings()] == ["CPU 0"]
    auditor.apply(pod("b", "n2", cpuset="0"))
    assert auditor.findings() == []
    auditor.apply(pod("c", cpuset="0"))
    auditor.remove(pod("a"))
    assert auditor.findings() == []
    auditor.remove(pod("a"))


_CHANGES = st.tuples(
    st.sampled_from("abcd"),
    st.sampled_from(("n1", "n2", "")),
    st.integers(0, 2),
    st.booleans(),
    st.booleans(),
)


@given(st.lists(_CHANGES, max_size=30))
def test_an_auditor_finds_what_an_audit_of_everything_finds(changes: list[Any]) -> None:
    auditor = Auditor()
    fixed = [
        node("n1", cpu="4"),
        node("n2", cpu="4"),
        topology("n1"),
        topology("n2"),
        gpus(3, "n1"),
        gpus(3, "n2"),
    ]
    for one in fixed:
        auditor.apply(one)
    there: dict[str, Any] = {}
    for name, on, number, is_reservation, gone in changes:
        key = f"{'r' if is_reservation else 'p'}-{name}"
        requests = {"cpu": str(number)}
        obj: Any = (
            reservation(key, on, reserved=requests)
            if is_reservation
            else pod(key, on, requests=requests, cpuset=str(number), devices={"gpu": [gpu(number, 60)]})
        )
        if gone:
            auditor.remove(obj)
            there.pop(key, None)
        else:
            auditor.apply(obj)
            there[key] = obj
        every = findings(*fixed, *there.values())
        assert sorted(map(str, auditor.findings())) == sorted(map(str, every))
