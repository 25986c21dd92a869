"""Every configuration of kube-scheduler that is shipped goes with the configuration of koordpy beside it."""

from pathlib import Path

import pytest

from koordpy import data, settings
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Access, Connection
from koordpy.doctor import extenders
from koordpy.doctor.finding import Finding, State
from koordpy.doctor.installation import Installation
from koordpy.features.feature import Part
from koordpy.lib.clock import SystemClock
from koordpy.scheduling.profiles import config
from tests.manifests.render import DEPLOY

BASE = DEPLOY / "kustomize" / "base" / "extender"


def findings(scheduler: Path, given: settings.Settings) -> list[Finding]:
    client = Client(Connection.to(Access("http://127.0.0.1:1")))
    installation = Installation(client, given, (Part.EXTENDER,), SystemClock())
    assert installation.problems == []
    return list(extenders.check(installation, config.load(scheduler)))


def bad(found: list[Finding]) -> list[Finding]:
    return [finding for finding in found if finding.state is not State.OK and finding.state is not State.NOTE]


@pytest.mark.parametrize(("mode", "suffix"), [("full", ""), ("light", "-light")])
def test_the_shipped_pair_of_a_mode(mode: str, suffix: str) -> None:
    given = settings.load(None, {"extender": {"mode": mode}})
    scheduler = data.deploy("scheduler", f"kube-scheduler-config{suffix}.yaml")
    assert bad(findings(scheduler, given)) == []


def test_the_pair_of_the_deployment() -> None:
    profiles = str(data.deploy("scheduler", "koordpy-profiles.yaml"))
    given = settings.load(BASE / "koordpy.yaml", {"extender": {"schedulerConfig": profiles}})
    assert bad(findings(BASE / "kube-scheduler-config.yaml", given)) == []


def test_the_pair_of_the_component_for_light_mode() -> None:
    folder = DEPLOY / "kustomize" / "components" / "light"
    given = settings.load(folder / "koordpy.yaml")
    assert (given.extender.mode, given.parts) == ("light", settings.load(BASE / "koordpy.yaml").parts)
    assert bad(findings(folder / "kube-scheduler-config.yaml", given)) == []
    light, full = (
        config.load(found / "kube-scheduler-config.yaml").model_copy(update={"extenders": ()})
        for found in (folder, BASE)
    )
    assert light == full


def test_the_two_modes_are_not_mixed_up() -> None:
    light = settings.load(None, {"extender": {"mode": "light"}})
    full = settings.load(None)
    [found] = bad(findings(data.deploy("scheduler", "kube-scheduler-config.yaml"), light))
    assert "every bind is refused" in found.message
    [found] = bad(findings(data.deploy("scheduler", "kube-scheduler-config-light.yaml"), full))
    assert "kube-scheduler binds by itself" in found.message
