from typing import Any

import pytest

from koordpy.api import reservation_annotations as annotations
from koordpy.api.core import Pod, Taint
from koordpy.api.quantity import parse
from koordpy.api.reservation import ReservationOwner
from koordpy.api.reservation_affinity import affinity_of, label_overlay, text_of, untolerated
from koordpy.api.reservation_owners import OwnersError, owner_matchers
from koordpy.api.scheme import DecodeError, decode

POD = decode(
    Pod,
    {
        "metadata": {
            "name": "p",
            "namespace": "ns",
            "uid": "u",
            "labels": {"app": "a"},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": "rs",
                    "uid": "rsu",
                    "controller": False,
                }
            ],
        }
    },
)


def matches(*owners: dict[str, Any]) -> bool:
    return owner_matchers(decode(list[ReservationOwner], list(owners))).matches(POD)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("owner", "is_owner"),
    [
        ({}, True),
        ({"object": {"name": "p", "kind": "Anything"}}, True),
        ({"object": {"name": "p", "namespace": "other"}}, False),
        ({"object": {"uid": "u", "apiVersion": "v1"}}, False),
        ({"controller": {"name": "rs", "kind": "ReplicaSet"}}, True),
        ({"controller": {"name": "rs", "namespace": "other"}}, False),
        ({"controller": {"name": "rs", "controller": True}}, False),
        ({"controller": {"name": "rs", "controller": False}}, True),
        ({"controller": {"uid": "other"}}, False),
        ({"labelSelector": {"matchLabels": {"app": "a"}}}, True),
        ({"labelSelector": {"matchLabels": {"app": "b"}}}, False),
        ({"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}, True),
        ({"labelSelector": {}, "object": {"name": "other"}}, False),
    ],
)
def test_the_conditions_of_an_owner(owner: dict[str, Any], is_owner: bool) -> None:
    assert matches(owner) is is_owner
    assert matches({"object": {"name": "nobody"}}, owner) is is_owner


def test_without_owners_no_pod_matches() -> None:
    assert not matches()


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (
            {"key": "app", "operator": "In"},
            'owners[1]: Invalid value: {"matchExpressions":[{"key":"app","operator":"In"}]}: values: Invalid '
            "value: null: for 'in', 'notin' operators, values set can't be empty",
        ),
        (
            {"key": "app", "operator": "Exists", "values": ["x"]},
            'owners[1]: Invalid value: {"matchExpressions":[{"key":"app","operator":"Exists","values":["x"]}]'
            '}: values: Invalid value: ["x"]: values set must be empty for exists and does not exist',
        ),
        (
            {"key": "app", "operator": "Bad"},
            'owners[1]: Invalid value: {"matchExpressions":[{"key":"app","operator":"Bad"}]}: "Bad" is not a '
            "valid label selector operator",
        ),
    ],
)
def test_an_invalid_selector_is_reported_in_kubernetes_words(expression: dict[str, Any], text: str) -> None:
    with pytest.raises(OwnersError) as caught:
        matches({}, {"labelSelector": {"matchExpressions": [expression]}})
    assert str(caught.value) == text


class TestAffinity:
    KEY = "scheduling.koordinator.sh/reservation-affinity"

    def test_no_annotation_is_no_affinity_and_an_empty_one_is_any_reservation(self) -> None:
        assert affinity_of({}) is None
        for text in ("", "{}", "null"):
            affinity = affinity_of({self.KEY: text})
            assert affinity is not None
            assert affinity.matches({}, "r")

    @pytest.mark.parametrize("text", ["[]", '"x"', "{", '{"name":1}'])
    def test_what_is_no_affinity_is_an_error(self, text: str) -> None:
        with pytest.raises(DecodeError):
            affinity_of({self.KEY: text})

    def test_selector_and_terms_must_hold_and_an_empty_term_never_does(self) -> None:
        required = '{"reservationSelectorTerms":[%s]}'
        term = '{"matchExpressions":[{"key":"k","operator":"Gt","values":["2"]}]}'
        text = '{"reservationSelector":{"a":"1"},"requiredDuringSchedulingIgnoredDuringExecution":%s}'
        affinity = affinity_of({self.KEY: text % (required % term)})
        assert affinity is not None
        assert affinity.matches({"a": "1", "k": "3"}, "r")
        assert not affinity.matches({"a": "1", "k": "2"}, "r")
        assert not affinity.matches({"k": "3"}, "r")
        empty = affinity_of({self.KEY: text % (required % "{}")})
        assert empty is not None
        assert not empty.matches({"a": "1"}, "r")

    def test_a_term_that_cannot_be_read_is_an_error(self) -> None:
        terms = '{"reservationSelectorTerms":[{},{"matchExpressions":[{"key":"k","operator":"In"}]}]}'
        text = '{"requiredDuringSchedulingIgnoredDuringExecution":' + terms + "}"
        with pytest.raises(DecodeError):
            affinity_of({self.KEY: text})

    def test_only_pods_with_affinity_mind_taints(self) -> None:
        taints = [Taint(key="p", effect="PreferNoSchedule"), Taint(key="k", value="v", effect="NoExecute")]
        assert untolerated(None, taints) is None
        minding = untolerated(affinity_of({self.KEY: ""}), taints)
        assert minding is not None
        assert text_of(minding) == "{k: v}"
        assert untolerated(affinity_of({self.KEY: '{"tolerations":[{"operator":"Exists"}]}'}), taints) is None

    def test_labels_of_the_reservation_lie_over_those_of_the_node(self) -> None:
        assert label_overlay({"a": "n", "b": "n"}, {"a": "r"}, omit_node_labels=False) == {"a": "r", "b": "n"}
        assert label_overlay({"a": "n", "b": "n"}, {"a": "r"}, omit_node_labels=True) == {"a": "r"}


class TestAnnotations:
    def test_exact_match_ends_at_the_first_name_that_both_sides_lack(self) -> None:
        requests, held = {"cpu": parse("1"), "memory": parse("1Gi")}, {"cpu": parse("1000m")}
        assert annotations.matches_exactly(["cpu"], requests, held)
        assert not annotations.matches_exactly(["cpu", "memory"], requests, held)
        assert annotations.matches_exactly(["nosuch", "memory"], requests, held)
        assert annotations.matches_exactly([], requests, held)

    def test_listed_cpus_go_before_an_amount_of_cpu(self) -> None:
        key = "node.koordinator.sh/reservation"
        text = '{"resources":{"cpu":"1","memory":"1Gi"},"reservedCPUs":"0-3"}'
        assert annotations.inner_reserved({key: text}) == {"cpu": parse("4"), "memory": parse("1Gi")}
        assert annotations.inner_reserved({key: '{"reservedCPUs":"x"}'}) == {}
        assert annotations.inner_reserved({}) == {}

    def test_options_that_name_nothing_of_it_are_ignored(self) -> None:
        assert annotations.resource_names(["memory", "cpu"], ["cpu", "x"]) == ("cpu",)
        assert annotations.resource_names(["memory", "cpu"], ["x"]) == ("cpu", "memory")

    @pytest.mark.parametrize(
        ("label", "order"),
        [("-5", -5), ("10", 10), ("0", None), ("abc", None), ("", None), ("9223372036854775807", None)],
    )
    def test_the_order_label(self, label: str, order: int | None) -> None:
        assert annotations.order({"scheduling.koordinator.sh/reservation-order": label}) == order

    def test_an_allocation_without_uid_is_none(self) -> None:
        key = "scheduling.koordinator.sh/reservation-allocated"
        assert annotations.allocated({key: '{"name":"r"}'}) is None
        assert annotations.allocated({key: "bad"}) is None
        text = annotations.allocated_text("r", "u")
        assert text == '{"name":"r","uid":"u"}'
        found = annotations.allocated({key: text})
        assert found is not None
        assert found.uid == "u"
