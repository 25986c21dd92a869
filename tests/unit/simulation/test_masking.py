"""What a recording leaves out of objects, and how it names them."""

from typing import Any

from koordpy.simulation.masking import Masking


def pod(**metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "web-1", "namespace": "shop", "uid": "u", **metadata},
        "spec": {
            "nodeName": "zeus",
            "serviceAccountName": "robot",
            "volumes": [{"name": "v", "secret": {"secretName": "s"}}],
            "nodeSelector": {"kubernetes.io/hostname": "zeus", "pool": "fast"},
            "affinity": {
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "topologyKey": "kubernetes.io/hostname",
                            "namespaces": ["shop"],
                            "labelSelector": {
                                "matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]
                            },
                        }
                    ]
                }
            },
            "containers": [
                {
                    "name": "secret-product",
                    "image": "i",
                    "args": ["--key=1"],
                    "env": [{"name": "A", "value": "B"}],
                    "ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 8081}],
                    "resources": {"requests": {"cpu": "1"}},
                }
            ],
        },
        "status": {"phase": "Running"},
    }


def test_only_what_placement_depends_on_stays() -> None:
    kept = Masking().pod(pod(labels={"app": "web"}, annotations={"x.org/a": "1", "koordinator.sh/b": "2"}))
    assert set(kept["spec"]) == {"nodeSelector", "affinity", "containers"}
    [container] = kept["spec"]["containers"]
    assert container == {
        "name": "container-0",
        "image": "recorded:1",
        "resources": {"requests": {"cpu": "1"}},
        "ports": [{"containerPort": 81, "hostPort": 8081}],
    }
    assert kept["metadata"] == {
        "name": "web-1",
        "namespace": "shop",
        "labels": {"app": "web"},
        "annotations": {"koordinator.sh/b": "2"},
    }


def test_anonymous_selectors_still_select_what_they_selected() -> None:
    masking = Masking(anonymous=True)
    kept = masking.pod(pod(labels={"app": "web", "koordinator.sh/qosClass": "BE"}))
    labels = kept["metadata"]["labels"]
    assert labels["koordinator.sh/qosClass"] == "BE"
    assert labels["app"] != "web"
    [term] = kept["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["labelSelector"]["matchExpressions"][0]["values"] == [labels["app"]]
    assert term["namespaces"] == [kept["metadata"]["namespace"]]
    assert kept["spec"]["nodeSelector"]["kubernetes.io/hostname"] == masking.name("node", "zeus")
    assert kept["spec"]["nodeSelector"]["pool"] not in ("fast", labels["app"])


def test_the_same_name_stays_the_same_and_others_stay_others() -> None:
    masking = Masking(anonymous=True)
    names = [masking.name("node", name) for name in ("a", "b", "a", "c")]
    assert names == ["node-1", "node-2", "node-1", "node-3"]
    assert masking.namespace("kube-system") == "kube-system"
    assert masking.namespace("shop") == "namespace-1"


def test_a_reservations_template_and_owners_are_masked() -> None:
    document = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": "r", "uid": "u"},
        "spec": {
            "owners": [
                {"object": {"kind": "Pod", "name": "web-1", "namespace": "shop", "uid": "u"}},
                {"labelSelector": {"matchLabels": {"app": "web"}}},
            ],
            "template": {"metadata": {"namespace": "shop"}, "spec": pod()["spec"]},
            "ttl": "1h",
        },
        "status": {"phase": "Available"},
    }
    masking = Masking(anonymous=True)
    kept = masking.trimmed(document)
    assert "status" not in kept
    assert kept["spec"]["ttl"] == "1h"
    web = masking.pod(pod(labels={"app": "web"}))
    [by_name, by_label] = kept["spec"]["owners"]
    assert by_name["object"] == {
        "kind": "Pod",
        "name": web["metadata"]["name"],
        "namespace": web["metadata"]["namespace"],
    }
    assert by_label["labelSelector"]["matchLabels"] == web["metadata"]["labels"]
    assert "name" not in kept["spec"]["template"]["metadata"]
    assert "args" not in kept["spec"]["template"]["spec"]["containers"][0]


def test_priority_classes_keep_their_names() -> None:
    document = {"kind": "PriorityClass", "metadata": {"name": "gold"}, "value": 10, "description": "ours"}
    assert Masking(anonymous=True).trimmed(document) == {
        "apiVersion": None,
        "kind": "PriorityClass",
        "metadata": {"name": "gold"},
        "value": 10,
    }
