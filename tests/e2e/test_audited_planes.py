"""That the audit at the end of a control plane's life can fail, and is left out where that is said."""

import json

import pytest

from koordpy.api import extension
from koordpy.api.core import Node, Pod
from tests.e2e import audited_planes
from tests.e2e.audited_planes import AuditedPlanes
from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.racing import NAMESPACE, client_of, create_all, node


async def dirty(plane: ControlPlane) -> None:
    """Hand out a CPU twice."""
    client = client_of(plane)
    try:
        await create_all(client, Node, [node("n", "8")])
        annotations = {extension.ANNOTATION_RESOURCE_STATUS: json.dumps({"cpuset": "0-1"})}
        await create_all(
            client,
            Pod,
            [
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": name, "namespace": NAMESPACE, "annotations": annotations},
                    "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
                }
                for name in ("a", "b")
            ],
        )
    finally:
        await client.close()


async def test_a_control_plane_with_dirty_books_fails_when_it_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audited_planes, "AGAIN", 0.1)
    plane = ControlPlane()
    plane.start()
    await dirty(plane)
    with pytest.raises(AssertionError, match="CPU 0-1"):
        plane.stop()
    assert plane.api_server is None


async def test_one_that_lives_on_fails_the_test_that_made_it_dirty_and_no_other(
    monkeypatch: pytest.MonkeyPatch, planes: AuditedPlanes
) -> None:
    monkeypatch.setattr(audited_planes, "AGAIN", 0.1)
    with ControlPlane() as plane:
        assert planes.end_test() == []
        await dirty(plane)
        [error] = planes.end_test()
        assert "CPU 0-1" in error
        assert planes.end_test() == []


async def test_one_that_is_dirty_on_purpose_fails_none(planes: AuditedPlanes) -> None:
    audits = planes.audits
    with ControlPlane() as plane:
        await dirty(plane)
        assert planes.end_test() == []
    assert planes.audits > audits  # others that live on are audited, too
