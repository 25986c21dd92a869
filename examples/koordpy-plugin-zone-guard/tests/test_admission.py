from typing import Any

import pytest
from zone_guard.admission import ZoneGuardHandler, ZoneGuardHandlerArgs

from koordpy.admission.handler import UPDATE, Denied
from koordpy.testing.admission import admit, handle

ZONES = "zone-guard.example.com/zones"


@pytest.fixture
def handler() -> ZoneGuardHandler:
    return ZoneGuardHandler(
        ZoneGuardHandlerArgs(zones_by_namespace={"payments": ["eu-1b", "eu-1a"]}), handle()
    )


def pod(**annotations: str) -> dict[str, Any]:
    return {"metadata": {"name": "p", "annotations": annotations}}


def test_a_pod_gets_the_zones_of_its_namespace(handler: ZoneGuardHandler) -> None:
    assert admit(handler, pod(), namespace="payments") == pod(**{ZONES: "eu-1a,eu-1b"})


def test_a_pod_may_ask_for_fewer_zones(handler: ZoneGuardHandler) -> None:
    asked = pod(**{ZONES: "eu-1b"})
    assert admit(handler, asked, namespace="payments") == asked


def test_a_pod_may_not_ask_for_other_zones(handler: ZoneGuardHandler) -> None:
    with pytest.raises(Denied, match="us-1a is not among the zones of namespace payments: eu-1a,eu-1b"):
        admit(handler, pod(**{ZONES: "eu-1a,us-1a"}), namespace="payments")


def test_other_namespaces_are_free(handler: ZoneGuardHandler) -> None:
    assert admit(handler, pod(), namespace="play") == pod()


def test_only_new_pods_are_changed(handler: ZoneGuardHandler) -> None:
    assert admit(handler, pod(), namespace="payments", operation=UPDATE) == pod()
