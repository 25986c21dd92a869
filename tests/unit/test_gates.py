import pytest

from koordpy import gates
from koordpy.controllers import host as controllers
from koordpy.lib.feature_gates import FeatureGateError

GATES = controllers.installed().feature_gates({})
ONE_FILE = {
    "MultiQuotaTree": True,
    "ResizePod": True,
    "ColocationProfileController": True,
    "BECPUSuppress": True,
}


def test_one_file_serves_every_process() -> None:
    serving = gates.chosen(gates.serving(), ONE_FILE)
    assert serving.enabled("MultiQuotaTree")
    assert serving.enabled("ResizePod")
    assert "ColocationProfileController" not in serving
    assert gates.chosen(GATES, ONE_FILE).enabled("ColocationProfileController")


def test_the_nearest_gate_of_all_parts_is_suggested_for_an_unknown_one() -> None:
    with pytest.raises(
        FeatureGateError, match=r"unrecognized feature gate 'MultiQuotaTrees'; did you mean MultiQuotaTree\?$"
    ):
        gates.chosen(GATES, {"MultiQuotaTrees": True})


def test_stages_switch_a_parts_own_gates() -> None:
    assert gates.chosen(GATES, {"AllAlpha": True}).enabled("ColocationProfileController")


def test_a_gate_that_only_koordinator_has_is_accepted_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    chosen = gates.chosen(gates.serving(), {"SyncBarrier": True, "MultiQuotaTree": True})
    assert chosen.enabled("MultiQuotaTree")
    assert "SyncBarrier" not in chosen
    assert "feature gate SyncBarrier of Koordinator has no effect" in caplog.text


def test_no_gate_that_koordpy_has_is_listed_as_without_effect() -> None:
    assert gates.KOORDINATOR.isdisjoint(gates._known())
