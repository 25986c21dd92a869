"""What a quota has given out, and what more it gives."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.api.core import Container, Pod, PodSpec, PodStatus, ResourceRequirements
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.meta import ObjectMeta
from koordpy.api.quantity import Quantity, parse
from koordpy_plugins.admission.quota_evaluate.account import Account, Refused, requests_of

PREFIX = "quota.scheduling.koordinator.sh/"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def account(
    maximum: Mapping[str, str], used: Any = None, admission: Any = None, *, raw: bool = False
) -> Account:
    """Read a quota `ns/q`; its annotations are given as objects, with `raw` as texts."""
    annotations = {
        f"{PREFIX}{name}": value if raw else json.dumps(value)
        for name, value in (("child-request", used), ("admission", admission))
        if value is not None
    }
    meta = ObjectMeta(name="q", namespace="ns", annotations=annotations)
    return Account(ElasticQuota(metadata=meta, spec=ElasticQuota.Spec(max=dict(maximum))))


def amounts(**values: str) -> dict[str, Quantity]:
    return {name: parse(value) for name, value in values.items()}


def refusal(of: Account, **requests: str) -> str:
    with pytest.raises(Refused) as refused:
        of.charge(amounts(**requests))
    return str(refused.value)


def test_what_fits_is_added() -> None:
    quota = account({"cpu": "4", "memory": "8Gi"}, {"cpu": "1"})
    assert quota.charge(amounts(cpu="1500m", memory="1Gi")) == amounts(cpu="1500m", memory="1Gi")
    assert quota.text() == '{"cpu":"2500m","memory":"1Gi"}'


def test_refusal_lists_the_exceeded_resources_only() -> None:
    quota = account({"cpu": "4", "memory": "8Gi"}, {"cpu": "4", "memory": "1Gi"})
    assert refusal(quota, cpu="2", memory="1Gi") == (
        "exceeded quota: ns/q, requested: cpu=2, used: cpu=4, limited: cpu=4"
    )
    assert quota.text() == '{"cpu":"4","memory":"1Gi"}'


def test_refusal_shows_what_is_used_only_where_it_is_known() -> None:
    quota = account({"cpu": "1", "memory": "1Gi"}, {"memory": "1Gi"})
    assert refusal(quota, memory="1Mi", cpu="2") == (
        "exceeded quota: ns/q, requested: cpu=2,memory=1Mi, used: memory=1Gi, limited: cpu=1,memory=1Gi"
    )


def test_admission_annotation_takes_the_place_of_the_maximum() -> None:
    quota = account({"cpu": "1"}, admission={"cpu": "10"})
    assert quota.charge(amounts(cpu="10"))
    assert "limited: cpu=0" in refusal(account({"cpu": "1"}, admission={"cpu": "0"}), cpu="1")


def test_resource_that_admission_does_not_name_is_unlimited() -> None:
    quota = account({"cpu": "1"}, admission={"kubernetes.io/batch-cpu": "0"})
    assert quota.charge(amounts(cpu="100")) == amounts(cpu="100")


@pytest.mark.parametrize("text", ["", "{}", "null"])
def test_empty_annotations_are_as_good_as_none(text: str) -> None:
    quota = account({"cpu": "1"}, text, text, raw=True)
    assert quota.limits == amounts(cpu="1")
    assert quota.charge(amounts(cpu="1")) == amounts(cpu="1")


@pytest.mark.parametrize("text", ["bad", '{"cpu":"x"}', "[]", "5"])
def test_account_that_cannot_be_read_refuses_everything(text: str) -> None:
    for quota in (
        account({"cpu": "1"}, text, raw=True),
        account({"cpu": "1"}, None, text, raw=True),
        account({"other": "1"}, text, raw=True),
    ):
        assert "ns/q: annotation quota.scheduling.koordinator.sh/" in refusal(quota)
        assert not quota.charge_again(amounts(cpu="1"))


def test_quota_of_unknown_resources_lets_everything_pass() -> None:
    quota = account({"example.com/foo": "0"})
    assert quota.charge({"example.com/foo": parse("5"), "cpu": parse("5")}) == {}
    assert quota.used == {}


def test_one_known_resource_makes_all_of_them_count() -> None:
    quota = account({"example.com/foo": "1", "cpu": "1"})
    with pytest.raises(Refused, match=r"requested: example\.com/foo=5, used: , limited: example\.com/foo=1"):
        quota.charge({"example.com/foo": parse("5")})


def test_what_the_maximum_does_not_name_or_is_zero_does_not_count() -> None:
    quota = account({"cpu": "1"}, {"memory": "1Gi"})
    assert quota.charge(amounts(memory="1Gi", cpu="0")) == {}
    assert quota.text() == '{"memory":"1Gi"}'


def test_charging_again_drops_what_the_maximum_does_not_name() -> None:
    quota = account({"cpu": "4"}, {"cpu": "1", "memory": "1Gi"})
    assert quota.charge_again(amounts(cpu="2"))
    assert quota.text() == '{"cpu":"3"}'


def test_charging_again_needs_room_for_everything() -> None:
    quota = account({"cpu": "4", "memory": "1Gi"}, {"cpu": "3"})
    assert not quota.charge_again(amounts(cpu="2"))
    assert quota.text() == '{"cpu":"3"}'


def pod(phase: str = "", deleted: str | None = None, grace: int | None = None) -> Pod:
    container = Container(name="c", resources=ResourceRequirements(requests={"cpu": "1"}))
    return Pod(
        metadata=ObjectMeta(name="p", deletion_timestamp=deleted, deletion_grace_period_seconds=grace),
        spec=PodSpec(containers=[container], init_containers=[container], overhead={"cpu": "250m"}),
        status=PodStatus(phase=phase),
    )


@pytest.mark.parametrize(
    ("sent", "counts"),
    [
        (pod(), True),
        (pod("Running"), True),
        (pod("Succeeded"), False),
        (pod("Failed"), False),
        (pod(deleted="2025-12-31T23:59:00Z", grace=30), False),
        (pod(deleted="2025-12-31T23:59:00Z", grace=60), True),
        (pod(deleted="2025-12-31T23:59:00Z", grace=61), True),
        (pod(deleted="2001-01-01T00:00:00Z"), True),
        (pod(deleted="9999-12-31T23:59:59Z", grace=9_000_000_000), True),
        (pod(deleted="2025-12-31T23:59:00Z", grace=10_000_000_000), False),  # exceeds 64 bits of nanoseconds
    ],
)
def test_pods_that_have_ended_or_should_have_count_nothing(sent: Pod, counts: bool) -> None:
    assert requests_of(sent, NOW) == (amounts(cpu="1250m") if counts else {})


RESOURCES = ("cpu", "memory", "example.com/foo")
LISTS = st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 20).map(str))


@given(
    maximum=LISTS, used=LISTS, admission=LISTS, pods=st.lists(LISTS.map(lambda r: amounts(**r)), max_size=8)
)
def test_no_charge_exceeds_a_limit_and_all_that_was_granted_is_used(
    maximum: dict[str, str],
    used: dict[str, str],
    admission: dict[str, str],
    pods: list[dict[str, Quantity]],
) -> None:
    quota = account(maximum, used, admission)
    before = {name: parse(amount).value() for name, amount in used.items()}
    granted: dict[str, int] = {}
    for requests in pods:
        try:
            added = quota.charge(requests)
        except Refused:
            continue
        for name, amount in added.items():
            assert name in maximum
            granted[name] = granted.get(name, 0) + amount.value()
            if name in quota.limits:
                assert quota.used[name] <= quota.limits[name]
    expected = {name: before.get(name, 0) + granted.get(name, 0) for name in before.keys() | granted.keys()}
    assert {name: amount.value() for name, amount in quota.used.items()} == expected


@given(maximum=LISTS, used=LISTS, pods=st.lists(LISTS.map(lambda r: amounts(**r)), min_size=1, max_size=5))
def test_what_fits_again_all_at_once_also_fits_one_by_one(
    maximum: dict[str, str], used: dict[str, str], pods: list[dict[str, Quantity]]
) -> None:
    fresh = account(dict.fromkeys(maximum, "1000"))
    charged = [added for added in map(fresh.charge, pods) if added]
    together: dict[str, Quantity] = {}
    for added in charged:
        for name, amount in added.items():
            together[name] = together[name] + amount if name in together else amount
    at_once, one_by_one = account(maximum, used), account(maximum, used)
    if charged and at_once.charge_again(together):
        for added in charged:
            one_by_one.charge(added)
        for name, amount in at_once.used.items():
            assert one_by_one.used[name] == amount
