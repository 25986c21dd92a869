"""Controllers are found, chosen, given their arguments, and kept alive."""

import asyncio
import random
from collections.abc import Iterable
from typing import Any, ClassVar

import pytest
from prometheus_client import REGISTRY

from koordpy.api.catalogue import Catalogue
from koordpy.api.config_model import ConfigError
from koordpy.api.plugin import NoArgs, PluginArgs
from koordpy.api.plugin_errors import DuplicateName, GateConflict
from koordpy.cluster.cluster import Cluster
from koordpy.controllers import host as hosting
from koordpy.controllers.host import GROUP, ControllerHost, feature_gates, installed
from koordpy.controllers.interface import Controller, Handle
from koordpy.lib.feature_gates import FeatureGateError, FeatureGates, FeatureSpec, Stage
from tests.eventually import PATIENCE


class Plain(Controller):
    name: ClassVar[str] = "plain"

    def setup(self) -> None:
        self.runs: list[str] = ["setup"]

    async def run(self) -> None:
        self.runs.append("run")
        await asyncio.Event().wait()


class GatedArgs(PluginArgs):
    height: int = 3


class Gated(Plain):
    name: ClassVar[str] = "gated"
    feature: ClassVar[str | None] = "Gating"
    feature_gates: ClassVar[dict[str, FeatureSpec]] = {"Gating": FeatureSpec(False, Stage.ALPHA)}
    args: GatedArgs


class Stumbling(Plain):
    name: ClassVar[str] = "stumbling"

    async def run(self) -> None:
        self.runs.append("run")
        raise RuntimeError("stumbled")


def catalogue(*types: type[Controller]) -> Catalogue[Controller]:
    return Catalogue.of(GROUP, Controller, types)


def build(
    types: Iterable[type[Controller]],
    *chosen: str,
    args: dict[str, dict[str, Any]] | None = None,
    **gates: bool,
) -> list[str]:
    known = catalogue(*types)
    handle = Handle(Cluster(), feature_gates(known, gates), rng=random.Random(1))
    return [made.name for made in hosting.build(known, chosen or ("*",), args or {}, handle)]


def test_gates_and_the_list_decide_together() -> None:
    types = (Plain, Gated)
    assert build(types) == ["plain"]
    assert build(types, Gating=True) == ["gated", "plain"]
    assert build(types, "*", "-plain", Gating=True) == ["gated"]
    assert build(types, "gated", Gating=True) == ["gated"]
    assert build(types, "gated") == []
    assert build(types, "nodeslo", "plain") == ["plain"]


def test_arguments_are_read_by_the_controllers_model() -> None:
    handle = Handle(Cluster(), feature_gates(catalogue(Gated), {"Gating": True}))
    [made] = hosting.build(catalogue(Gated), ["*"], {"gated": {"height": 4}}, handle)
    assert made.args == GatedArgs(height=4)


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        ({"gated": {"hight": 4}}, r"^worker\.controllers\.args\.gated\.hight: unknown field"),
        (
            {"typo": {}},
            r'^worker\.controllers\.args: got "typo", expected .* koordpy\.controllers; expected gated$',
        ),
    ],
)
def test_bad_arguments_are_named(args: dict[str, dict[str, Any]], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        build([Gated], args=args, Gating=True)


def test_a_gate_that_no_controller_has_is_refused() -> None:
    with pytest.raises(FeatureGateError, match="NoSuchGate"):
        build([Plain], NoSuchGate=True)


def test_a_name_or_a_gate_is_registered_once() -> None:
    with pytest.raises(DuplicateName, match='"plain"'):
        catalogue(Plain, Plain)

    class Unknown(Plain):
        name: ClassVar[str] = "unknown"
        feature: ClassVar[str | None] = "NobodyKnows"

    with pytest.raises(GateConflict, match=r'"unknown".*gate "NobodyKnows" is not known'):
        feature_gates(catalogue(Unknown))


def test_the_profile_controller_is_installed() -> None:
    assert "colocationprofile" in installed()
    assert not feature_gates(installed()).enabled("ColocationProfileController")


async def test_a_controller_that_raises_does_not_take_the_others_down() -> None:
    handle = Handle(Cluster(), FeatureGates({}))
    plain, stumbling = Plain(NoArgs(), handle), Stumbling(NoArgs(), handle)
    host = ControllerHost([stumbling, plain])
    host.setup()
    labels = {"loop": "controller stumbling"}
    before = REGISTRY.get_sample_value("koordpy_loop_restarts_total", labels) or 0
    running = asyncio.create_task(host.run())
    async with asyncio.timeout(PATIENCE):
        while "run" not in plain.runs or stumbling.runs.count("run") < 2:
            await asyncio.sleep(0.01)
    assert (REGISTRY.get_sample_value("koordpy_loop_restarts_total", labels) or 0) > before
    assert REGISTRY.get_sample_value("koordinator_manager_is_leader") == 1
    assert plain.runs == ["setup", "run"]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert REGISTRY.get_sample_value("koordinator_manager_is_leader") == 0


def test_writing_offline_is_refused() -> None:
    with pytest.raises(RuntimeError, match="no API server"):
        _ = Handle(Cluster(), FeatureGates({})).client
