"""Pods by namespace and label."""

from koordpy.api.core import Pod
from koordpy.api.label_selector import EVERYTHING, NOTHING, parse
from koordpy.api.scheme import decode
from koordpy.descheduling.toolkit.label_index import LabelIndex


def pod(name: str, namespace: str = "a", **labels: str) -> Pod:
    return decode(Pod, {"metadata": {"namespace": namespace, "name": name, "labels": labels}})


PODS = [pod("p", app="x", tier="1"), pod("q", app="x"), pod("r", app="y"), pod("s", "b", app="x"), pod("t")]


def test_selects_in_order_within_a_namespace() -> None:
    index = LabelIndex(PODS)
    found = {
        text: [item.metadata.name for item in index.selected("a", parse(text))]
        for text in ("app=x", "app=x,tier=1", "app in (x,y)", "app!=x", "tier")
    }
    assert found == {
        "app=x": ["p", "q"],
        "app=x,tier=1": ["p"],
        "app in (x,y)": ["p", "q", "r"],
        "app!=x": ["r", "t"],
        "tier": ["p"],
    }
    assert len(index.selected("a", EVERYTHING)) == 4
    assert index.selected("a", NOTHING) == []
    assert index.selected("c", EVERYTHING) == []
    assert list(index.namespaces) == ["a", "b"]
