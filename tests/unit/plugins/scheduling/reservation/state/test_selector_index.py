import json
from typing import Any

from koordpy.scheduling.interface.reservation_info import ReservationInfo
from koordpy_plugins.scheduling.reservation.args import ReservationSelectorIndexConfig
from koordpy_plugins.scheduling.reservation.state.selector_index import SelectorIndex

from ..scenes import Scene, claimant, reservation, user


def index(**config: Any) -> SelectorIndex:
    return SelectorIndex(ReservationSelectorIndexConfig(enabled=True, **config))


def info(name: str, node_name: str, **labels: str) -> ReservationInfo:
    return ReservationInfo(reservation(name, node_name, labels=labels))


def test_blank_keys_switch_it_off() -> None:
    assert not index(keys=(" ", "")).enabled
    assert index(keys=(" k ", "k")).keys == ["k"]
    assert not SelectorIndex(ReservationSelectorIndexConfig(keys=("k",))).enabled


def test_the_smallest_bucket_answers() -> None:
    made = index(keys=("team",), key_prefixes=("lv",))
    for each in (info("a", "n1", team="x", lvl="1"), info("b", "n2", team="x"), info("c", "n3", team="y")):
        made.put(each)
    assert set(made.query({"team": "x"}) or ()) == {"n1", "n2"}
    assert made.query({"team": "x", "lvl": "7"}) == ["n1"]
    assert made.query({"team": "z"}) == []
    assert made.query({"other": "x"}) is None
    assert made.query({}) is None


def test_of_buckets_of_one_size_the_prefixs_answers() -> None:
    made = index(keys=("team",), key_prefixes=("lv",))
    made.put(info("a", "n1", team="x"))
    made.put(info("b", "n2", lvl="1"))
    assert made.query({"team": "x", "lvl": "7"}) == ["n2"]
    assert made.query({"lvl": "7", "team": "x"}) == ["n2"]


def test_it_follows_changes() -> None:
    made = index(keys=("team",), key_prefixes=("te",))
    made.put(info("a", "n1", team="x"))
    made.put(info("a", "n2", team="y"))
    assert made.query({"team": "x"}) == []
    assert made.query({"team": "y"}) == ["n2"]
    made.discard("uid-a")
    assert made.describe(detail=True) == {
        "enabled": True,
        "prefixes": ["te"],
        "keys": ["team"],
        "indexedReservations": 0,
    }


def test_detail_adds_nodes_and_values() -> None:
    made = index(keys=("team",))
    made.put(info("a", "n1", team="x"))
    counts = {"nodes": 1, "reservations": 1}
    assert made.describe(detail=False)["byKey"] == {"team": counts}
    assert made.describe(detail=True)["byKeyValue"] == {"team": {"x": {**counts, "byNode": {"n1": 1}}}}


def test_the_plugin_checks_only_nodes_of_the_index() -> None:
    args = {"reservationSelectorIndex": {"enabled": True, "keys": ["team"]}}
    scene = Scene(objects=[reservation("r", labels={"team": "x"})], args=args)
    assert scene.fits(claimant("a", "r", affinity='{"reservationSelector":{"team":"x"}}'))
    assert not scene.fits(claimant("b", "r", affinity='{"reservationSelector":{"team":"y"}}'))
    shown = scene.plugin.endpoints()["reservationSelectorIndex"](detail="true")
    assert isinstance(shown, dict)
    assert shown["byKeyValue"]["team"]["x"]["byNode"] == {"n1": 1}


def test_the_reservations_of_a_node_are_served() -> None:
    scene = Scene(objects=[reservation("r", cpu="4", ports=[80]), user("a", "r")])
    show = scene.plugin.endpoints()["nodeReservations/{node_name}"]
    assert show(node_name="n2") == {}
    answer = show(node_name="n1")
    assert isinstance(answer, dict)
    (item,) = answer["items"]
    assert (item["kind"], item["available"], item["allocated"]) == ("Reservation", True, {"cpu": "1"})
    assert item["allocatablePorts"] == [{"ip": "0.0.0.0", "protocol": "TCP", "port": 80}]
    assert item["availableResource"]["MilliCPU"] == 3000
    assert item["assignedPods"][0]["Name"] == "a"
    assert json.dumps(answer)
