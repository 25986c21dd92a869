"""Controllers are found, chosen, given their arguments, and kept alive."""

import asyncio
import random
from collections.abc import Iterable
from typing import Any, ClassVar

import pytest
from prometheus_client import REGISTRY

from koordpy.api.config_model import ConfigError, ConfigModel
from koordpy.cluster.cluster import Cluster
from koordpy.controllers.host import ControllerHost, Registry
from koordpy.controllers.interface import Controller, Handle
from koordpy.lib.feature_gates import FeatureGateError, FeatureSpec, Stage
from tests.eventually import PATIENCE


class Plain(Controller):
    name: ClassVar[str] = "plain"

    def setup(self) -> None:
        self.runs: list[str] = ["setup"]

    async def run(self) -> None:
        self.runs.append("run")
        await asyncio.Event().wait()


class GatedArgs(ConfigModel):
    height: int = 3


class Gated(Plain):
    name: ClassVar[str] = "gated"
    feature: ClassVar[str | None] = "Gating"
    feature_spec: ClassVar[FeatureSpec | None] = FeatureSpec(False, Stage.ALPHA)
    args_type: ClassVar[type[ConfigModel]] = GatedArgs


class Stumbling(Plain):
    name: ClassVar[str] = "stumbling"

    async def run(self) -> None:
        self.runs.append("run")
        raise RuntimeError("stumbled")


def build(
    types: Iterable[type[Controller]],
    *chosen: str,
    args: dict[str, dict[str, Any]] | None = None,
    **gates: bool,
) -> list[str]:
    registry = Registry(types)
    handle = Handle(Cluster(), registry.gates(gates), rng=random.Random(1))
    return [made.name for made in registry.build(chosen or ("*",), args or {}, handle)]


def test_gates_and_the_list_decide_together() -> None:
    types = (Plain, Gated)
    assert build(types) == ["plain"]
    assert build(types, Gating=True) == ["gated", "plain"]
    assert build(types, "*", "-plain", Gating=True) == ["gated"]
    assert build(types, "gated", Gating=True) == ["gated"]
    assert build(types, "gated") == []
    assert build(types, "nodeslo", "plain") == ["plain"]


def test_arguments_are_read_by_the_controllers_model() -> None:
    registry = Registry([Gated])
    handle = Handle(Cluster(), registry.gates({"Gating": True}))
    [made] = registry.build(["*"], {"gated": {"height": 4}}, handle)
    assert made.args == GatedArgs(height=4)


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        ({"gated": {"hight": 4}}, r"controller 'gated': args\.hight: unknown field"),
        ({"typo": {}}, r"args: there is no controller 'typo'; installed: gated"),
    ],
)
def test_bad_arguments_are_named(args: dict[str, dict[str, Any]], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        build([Gated], args=args, Gating=True)


def test_a_gate_that_no_controller_has_is_refused() -> None:
    with pytest.raises(FeatureGateError, match="NoSuchGate"):
        build([Plain], NoSuchGate=True)


def test_a_name_or_a_gate_is_registered_once() -> None:
    with pytest.raises(ConfigError, match="'plain' is registered twice"):
        Registry([Plain, Plain])

    class Unknown(Plain):
        name: ClassVar[str] = "unknown"
        feature: ClassVar[str | None] = "NobodyKnows"

    with pytest.raises(ConfigError, match="gate 'NobodyKnows' is not known"):
        Registry([Unknown])


def test_the_profile_controller_is_installed() -> None:
    registry = Registry.installed()
    assert "colocationprofile" in registry.types
    assert not registry.gates().enabled("ColocationProfileController")


async def test_a_controller_that_raises_does_not_take_the_others_down() -> None:
    handle = Handle(Cluster(), Registry().gates())
    plain, stumbling = Plain(Plain.args_type(), handle), Stumbling(Stumbling.args_type(), handle)
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
        _ = Handle(Cluster(), Registry().gates()).client
