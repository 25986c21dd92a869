"""Tables: what the server prints for kubectl."""

from collections.abc import Callable
from typing import Any

from tests.integration.apiserver.custom_resources import widget
from tests.integration.apiserver.objects import config_map, node, pod, running
from tests.integration.apiserver.rest import Collection, Document, Rest, ok

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def columns(table: Document) -> list[str]:
    """The names of the columns that are shown without -o wide."""
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    return [column["name"] for column in table["columnDefinitions"] if column["priority"] == 0]


def cells(table: Document, row: int = 0) -> dict[str, Any]:
    definitions = table["columnDefinitions"]
    return dict(zip((c["name"] for c in definitions), table["rows"][row]["cells"], strict=True))


def test_pods_print_ready_status_restarts_and_age(rest: Rest, pods: Collection, namespace: str) -> None:
    running(rest, namespace, pod("a"), "node-1")
    ok(pods.create(pod("b")), 201)
    table = ok(pods.list(TABLE))
    assert columns(table) == ["Name", "Ready", "Status", "Restarts", "Age"]
    wide = [c["name"] for c in table["columnDefinitions"] if c["priority"] == 1]
    assert wide == ["IP", "Node", "Nominated Node", "Readiness Gates"]
    first, second = cells(table, 0), cells(table, 1)
    assert (first["Name"], first["Ready"], first["Status"]) == ("a", "0/1", "Running")
    assert (first["Node"], str(first["Restarts"])) == ("node-1", "0")
    assert (second["Status"], second["Node"], second["IP"]) == ("Pending", "<none>", "<none>")


def test_gated_and_terminating_pods_print_so(rest: Rest, pods: Collection, namespace: str) -> None:
    ok(pods.create(pod("gated", schedulingGates=[{"name": "example.com/wait"}])), 201)
    running(rest, namespace, pod("leaving"))
    ok(pods.delete("leaving"), 200)
    table = ok(pods.list(TABLE))
    assert [cells(table, row)["Status"] for row in (0, 1)] == ["SchedulingGated", "Terminating"]


def test_rows_carry_the_metadata_of_their_object(pods: Collection) -> None:
    created = ok(pods.create(pod("a")), 201)
    (row,) = ok(pods.list(TABLE))["rows"]
    assert row["object"]["kind"] == "PartialObjectMetadata"
    assert row["object"]["metadata"]["uid"] == created["metadata"]["uid"]


def test_rows_carry_the_whole_object_or_none_where_asked(pods: Collection) -> None:
    ok(pods.create(pod("a")), 201)
    (whole,) = ok(pods.list(TABLE, includeObject="Object"))["rows"]
    assert whole["object"]["spec"]["containers"]
    (none,) = ok(pods.list(TABLE, includeObject="None"))["rows"]
    assert not none.get("object")


def test_nodes_print_status_roles_age_and_version(rest: Rest, unique: Callable[[str], str]) -> None:
    nodes, name = rest.collection("nodes"), unique("node")
    labels = {"mark": name, "node-role.kubernetes.io/worker": ""}
    document = node(name, labels, unschedulable=True)
    document["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    document["status"]["nodeInfo"] = {"kubeletVersion": "v1.35.3"}
    ok(nodes.create(document), 201)
    table = ok(nodes.list(TABLE, labelSelector=f"mark={name}"))
    assert columns(table) == ["Name", "Status", "Roles", "Age", "Version"]
    row = cells(table)
    assert (row["Name"], row["Status"], row["Roles"]) == (name, "Ready,SchedulingDisabled", "worker")
    assert row["Version"] == "v1.35.3"


def test_node_without_conditions_is_unknown(rest: Rest, unique: Callable[[str], str]) -> None:
    nodes, name = rest.collection("nodes"), unique("node")
    ok(nodes.create(node(name)), 201)
    row = cells(ok(rest.get(f"{nodes.path}/{name}", TABLE)))
    assert (row["Status"], row["Roles"]) == ("Unknown", "<none>")


def test_custom_resources_print_the_columns_of_their_definition(widgets: Collection) -> None:
    ok(widgets.create(widget("a", size=4)), 201)
    table = ok(widgets.list(TABLE))
    assert columns(table) == ["Name", "Size", "Phase", "Age"]
    row = cells(table)
    assert (row["Name"], row["Size"], row["Colour"], row["Phase"]) == ("a", 4, "red", None)


def test_other_kinds_print_name_and_age_at_least(maps: Collection) -> None:
    ok(maps.create(config_map("a", one="1", two="2")), 201)
    table = ok(maps.list(TABLE))
    assert {"Name", "Age"} <= set(columns(table))
    assert cells(table)["Name"] == "a"


def test_one_object_is_a_table_of_one_row(pods: Collection) -> None:
    ok(pods.create(pod("a")), 201)
    table = ok(pods.rest.get(f"{pods.path}/a", TABLE))
    assert [row["cells"][0] for row in table["rows"]] == ["a"]


def test_age_is_in_words(pods: Collection) -> None:
    ok(pods.create(pod("a")), 201)
    assert cells(ok(pods.list(TABLE)))["Age"].endswith("s")


def test_table_of_a_page_has_its_continue_token(filled: Collection) -> None:
    table = ok(filled.list(TABLE, limit=2))
    assert len(table["rows"]) == 2
    assert table["metadata"]["continue"]


def test_watched_tables_name_their_columns_once(filled: Collection) -> None:
    start = ok(filled.list())["metadata"]["resourceVersion"]
    with filled.watch(TABLE, resourceVersion=start) as watch:
        ok(filled.patch("a", {"data": {"key": "1"}}))
        ok(filled.delete("b"))
        first, second = watch.next(), watch.next()
    assert (first["type"], first["object"]["kind"]) == ("MODIFIED", "Table")
    assert first["object"]["columnDefinitions"]
    assert not second["object"].get("columnDefinitions")
    assert (second["type"], second["object"]["rows"][0]["cells"][0]) == ("DELETED", "b")
