"""Processes and their parts, without any connection."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from koordpy import settings
from koordpy.compose.part import Part, PartError
from koordpy.compose.parts import in_order
from koordpy.compose.parts.admission import AdmissionPart
from koordpy.compose.parts.debug import DebugPart
from koordpy.compose.parts.extender import ExtenderPart
from koordpy.compose.process import Process
from koordpy.lib.feature_gates import FeatureGateError
from tests.unit.test_settings import IN_A_POD

NOWHERE = {"client": {"server": "http://127.0.0.1:1"}}


def process(*parts: str, environment: dict[str, str] | None = None, **document: Any) -> Process:
    return Process(settings.load(None, {**NOWHERE, **document}, environment), parts, listens=False)


def test_every_part_that_settings_can_choose_is_there() -> None:
    assert {part.name for part in in_order(settings.PART_NAMES)} == {*settings.PART_NAMES, "reservations"}


def test_reservations_come_with_the_extender_and_the_debug_api_last() -> None:
    names = [part.name for part in in_order(["debug", "admission", "extender"])]
    assert names == ["extender", "reservations", "admission", "debug"]


def test_an_unknown_part_is_refused() -> None:
    with pytest.raises(KeyError, match="window"):
        process("window")


def test_a_part_is_found_by_its_type() -> None:
    made = process("debug")
    assert isinstance(made.part(DebugPart), DebugPart)
    assert made.find(ExtenderPart) is None
    with pytest.raises(LookupError, match="the part extender does not run in this process"):
        made.part(ExtenderPart)


def test_gates_are_those_of_all_parts_together() -> None:
    gates = process("admission", "debug").gates
    assert "PodMutatingWebhook" in gates
    gates = process("admission", "extender", featureGates={"ResizePod": True}).gates
    assert gates.enabled("ResizePod")
    assert "PodMutatingWebhook" in gates
    with pytest.raises(FeatureGateError, match="Nope"):
        process("debug", featureGates={"Nope": True})


def test_the_delay_at_the_end_can_be_set_and_is_not_needed_without_webhooks() -> None:
    assert process("admission", environment=IN_A_POD).shutdown_seconds == settings.SHUTDOWN_DELAY
    assert process("admission").shutdown_seconds == 0
    assert process("debug", environment=IN_A_POD).shutdown_seconds == 0
    assert process("debug", shutdownDelay="3s").shutdown_seconds == 3


def test_nothing_is_written_while_a_process_is_made(tmp_path: Path) -> None:
    made = process("admission", admission={"certDir": str(tmp_path / "certs")})
    assert made.part(AdmissionPart).chains
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("part", ["descheduler", "agent"])
def test_a_part_with_incomplete_settings_names_what_it_needs(part: str) -> None:
    with pytest.raises(PartError, match=r"needs (worker\.descheduler\.config|agent\.nodeName)"):
        process(part)


@pytest.mark.parametrize("part", settings.PART_NAMES)
def test_every_part_states_its_needs(part: str) -> None:
    [type_] = (found for found in in_order([part]) if found.name == part)
    needs = type_.needs(settings.Settings())
    assert type_.needs.__doc__ != Part.needs.__doc__
    assert len(set(needs.rights)) == len(needs.rights)


@pytest.mark.parametrize("part", ["descheduler", "controllers", "node_agent"])
def test_a_part_loads_no_web_framework(part: str) -> None:
    """Only what answers requests needs one."""
    text = (
        f"import sys, koordpy.compose.process, koordpy.compose.parts.{part}; print('fastapi' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
