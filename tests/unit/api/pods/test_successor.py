"""The pod that takes the place of an evicted one."""

from koordpy.api import extension
from koordpy.api.core import Pod
from koordpy.api.pods.successor import successor_of
from koordpy.api.scheme import decode


def test_it_is_a_pod_that_was_not_scheduled_yet() -> None:
    victim = decode(
        Pod,
        {
            "metadata": {
                "name": "web-0",
                "namespace": "shop",
                "uid": "1",
                "resourceVersion": "7",
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "deletionTimestamp": "2026-01-02T00:00:00Z",
                "finalizers": ["shop/wait"],
                "labels": {"app": "web"},
                "annotations": {extension.ANNOTATION_DEVICE_ALLOCATED: "{}", "kept": "yes"},
            },
            "spec": {"nodeName": "n0", "containers": [{"name": "c", "image": "i"}]},
            "status": {"phase": "Running"},
        },
    )
    found = successor_of(victim)
    meta = found.metadata
    assert (meta.key, meta.labels, meta.annotations) == ("shop/web-0", {"app": "web"}, {"kept": "yes"})
    assert meta.uid not in ("", "1")
    assert (meta.resource_version, meta.creation_timestamp, meta.deletion_timestamp) == ("", None, None)
    assert meta.finalizers == []
    assert (found.spec.node_name, found.status.phase) == ("", type(found.status)().phase)
    assert found.spec.containers == victim.spec.containers
