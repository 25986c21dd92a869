"""Many clients at once: nothing is lost, nothing is told twice or out of order."""

from concurrent.futures import ThreadPoolExecutor

from tests.integration.apiserver.objects import config_map, pod
from tests.integration.apiserver.rest import JSON_PATCH, Collection, ok


def test_counter_under_optimistic_locking_loses_no_increment(maps: Collection) -> None:
    ok(maps.create(config_map("counter", value="0")), 201)

    def increment(_: int) -> None:
        while True:
            seen = ok(maps.get("counter"))
            changed = seen | {"data": {"value": str(int(seen["data"]["value"]) + 1)}}
            if maps.replace(changed).status_code == 200:
                return

    with ThreadPoolExecutor(8) as clients:
        list(clients.map(increment, range(40)))
    assert ok(maps.get("counter"))["data"]["value"] == "40"


def test_patches_without_a_version_never_conflict(maps: Collection) -> None:
    ok(maps.create(config_map("shared", start="1")), 201)

    def add(index: int) -> None:
        if index % 2:
            ok(maps.patch("shared", {"data": {f"k{index}": "1"}}), 200)
        else:
            operation = {"op": "add", "path": f"/data/k{index}", "value": "1"}
            ok(maps.patch("shared", [operation], JSON_PATCH), 200)

    with ThreadPoolExecutor(4) as clients:
        list(clients.map(add, range(24)))
    assert set(ok(maps.get("shared"))["data"]) == {"start", *(f"k{index}" for index in range(24))}


def test_one_of_many_creations_wins(maps: Collection) -> None:
    with ThreadPoolExecutor(8) as clients:
        codes = list(clients.map(lambda _: maps.create(config_map("a")).status_code, range(8)))
    assert sorted(codes) == [201] + [409] * 7


def test_one_of_many_bindings_wins(pods: Collection) -> None:
    ok(pods.create(pod("a")), 201)

    def bind(index: int) -> int:
        target = {"apiVersion": "v1", "kind": "Node", "name": f"node-{index}"}
        return pods.post("a", "binding", {"metadata": {"name": "a"}, "target": target}).status_code

    with ThreadPoolExecutor(8) as clients:
        codes = list(clients.map(bind, range(8)))
    assert sorted(codes) == [201] + [409] * 7
    assert ok(pods.get("a"))["spec"]["nodeName"] == f"node-{codes.index(201)}"


def test_watch_tells_every_change_once_in_order_of_version(maps: Collection) -> None:
    start = ok(maps.list())["metadata"]["resourceVersion"]

    def live(index: int) -> None:
        name = f"m-{index}"
        ok(maps.create(config_map(name)), 201)
        ok(maps.patch(name, {"data": {"key": "1"}}), 200)
        ok(maps.delete(name), 200)

    with maps.watch(resourceVersion=start) as watch:
        with ThreadPoolExecutor(4) as clients:
            list(clients.map(live, range(30)))
        events = [watch.next() for _ in range(90)]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(set(versions))
    for index in range(30):
        told = [event["type"] for event in events if event["object"]["metadata"]["name"] == f"m-{index}"]
        assert told == ["ADDED", "MODIFIED", "DELETED"]


def test_list_and_watch_leave_no_gap(maps: Collection) -> None:
    def create(index: int) -> None:
        ok(maps.create(config_map(f"m-{index}")), 201)

    with ThreadPoolExecutor(2) as clients:
        creations = [clients.submit(create, index) for index in range(40)]
        listed = ok(maps.list())
        seen = {item["metadata"]["name"] for item in listed["items"]}
        with maps.watch(resourceVersion=listed["metadata"]["resourceVersion"]) as watch:
            while len(seen) < 40:
                event = watch.next()
                assert event["object"]["metadata"]["name"] not in seen
                seen.add(event["object"]["metadata"]["name"])
        for creation in creations:
            creation.result()
