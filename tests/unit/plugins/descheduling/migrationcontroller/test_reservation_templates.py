"""What the Reservation of a migration reserves."""

from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

from koordpy_plugins.descheduling.migrationcontroller.reservations import options_for, owners_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)

LABELS = {
    "app.kubernetes.io/created-by": "koord-descheduler",
    "scheduling.koordinator.sh/reservation-order": "1767225600000",
}
AVOIDS = {"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "ur", "controller": True}


def job(**options: Any) -> dict[str, Any]:
    return {"metadata": {"uid": "uj"}, "spec": {"reservationOptions": options}}


def pod(**spec: Any) -> dict[str, Any]:
    metadata = {"name": "p", "namespace": "a", "uid": "up", "managedFields": [{}], "ownerReferences": [OWNER]}
    return {"metadata": metadata, "spec": {"nodeName": "n1", **spec}, "status": {"phase": "Running"}}


def test_a_reservation_is_the_pod_on_another_node_for_its_controllers_pods() -> None:
    given = pod(containers=[{"name": "c"}])
    before = deepcopy(given)
    template = options_for({"metadata": {"uid": "uj"}}, given, "5m0s", NOW)["template"]
    assert given == before
    assert template["metadata"] == {"name": "uj", "labels": LABELS}
    spec = template["spec"]
    assert spec["allocateOnce"] is True
    assert spec["ttl"] == "5m0s"
    assert spec["owners"] == [{"controller": {**OWNER, "namespace": "a"}}]
    assert "managedFields" not in spec["template"]["metadata"]
    assert spec["template"]["spec"] == {
        "containers": [{"name": "c"}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchFields": [AVOIDS]}]
                }
            }
        },
    }


def test_every_required_term_of_the_pod_avoids_its_node() -> None:
    zone, own = (
        {"key": "z", "operator": "Exists"},
        {"key": "metadata.name", "operator": "In", "values": ["n3"]},
    )
    terms = [{"matchExpressions": [zone]}, {"matchFields": [own]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    found = options_for(job(), pod(affinity={"nodeAffinity": required}), None, NOW)
    affinity = found["template"]["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    assert affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] == [
        {"matchExpressions": [zone], "matchFields": [AVOIDS]},
        {"matchFields": [own, AVOIDS]},
    ]


def test_a_given_template_is_completed() -> None:
    given = {
        "metadata": {"name": "mine", "labels": {"l": "v"}},
        "spec": {"expires": "2026-02-01T00:00:00Z", "template": {"spec": {"nodeName": "n9"}}, "owners": []},
    }
    found = options_for(job(template=given), pod(), "5m0s", NOW)["template"]
    assert found["metadata"] == {"name": "mine", "labels": {"l": "v", **LABELS}}
    assert "ttl" not in found["spec"]
    assert "nodeName" not in found["spec"]["template"]["spec"]
    assert found["spec"]["owners"] == [{"controller": {**OWNER, "namespace": "a"}}]


def test_a_pod_that_waits_for_a_node_owns_its_reservation_itself() -> None:
    waiting = pod()
    waiting["status"] = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False"}]}
    assert owners_of(waiting) == [{"object": {"kind": "Pod", "namespace": "a", "name": "p", "uid": "up"}}]
    del waiting["spec"]["nodeName"]
    assert "affinity" not in options_for(job(), waiting, None, NOW)["template"]["spec"]["template"]["spec"]


def test_a_pod_without_a_controller_owns_nothing() -> None:
    bare = pod()
    bare["metadata"]["ownerReferences"] = [{**OWNER, "controller": False}]
    assert owners_of(bare) == []
    assert "owners" not in options_for(job(), bare, None, NOW)["template"]["spec"]


def test_volumes_with_claims_are_left_out_where_the_gate_says_so() -> None:
    volumes = [
        {"name": "a", "persistentVolumeClaim": {"claimName": "x"}},
        {"name": "b", "ephemeral": {}},
        {"name": "c", "emptyDir": {}},
    ]
    kept = options_for(job(), pod(volumes=volumes), None, NOW)["template"]["spec"]["template"]["spec"]
    assert kept["volumes"] == volumes
    found = options_for(job(), pod(volumes=volumes), None, NOW, keep_claims=False)
    assert found["template"]["spec"]["template"]["spec"]["volumes"] == volumes[2:]
    none = options_for(job(), pod(volumes=volumes[:2]), None, NOW, keep_claims=False)
    assert "volumes" not in none["template"]["spec"]["template"]["spec"]
