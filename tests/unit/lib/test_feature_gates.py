import pytest

from koordpy.admission.gates import SPECS, feature_gates
from koordpy.lib.feature_gates import FeatureGateError, FeatureGates, FeatureSpec, Stage, parse


@pytest.fixture
def gates() -> FeatureGates:
    return FeatureGates(
        {
            "Alpha1": FeatureSpec(False, Stage.ALPHA),
            "Alpha2": FeatureSpec(False, Stage.ALPHA),
            "Beta1": FeatureSpec(True, Stage.BETA),
            "Stable": FeatureSpec(True, Stage.GA, locked=True),
        }
    )


def test_gates_have_their_defaults(gates: FeatureGates) -> None:
    assert dict(gates) == {"Alpha1": False, "Alpha2": False, "Beta1": True, "Stable": True}


def test_text_switches_gates(gates: FeatureGates) -> None:
    gates.set_from_text(" Alpha1 = true , Beta1=F,, ")
    assert gates.enabled("Alpha1")
    assert not gates.enabled("Beta1")


def test_last_value_of_a_gate_named_twice_holds() -> None:
    assert parse("A=true,A=false") == {"A": False}


@pytest.mark.parametrize("text", ["AllAlpha=true,Alpha1=false", "Alpha1=false,AllAlpha=true"])
def test_stage_switch_gives_way_to_a_named_gate(gates: FeatureGates, text: str) -> None:
    gates.set_from_text(text)
    assert dict(gates) == {"Alpha1": False, "Alpha2": True, "Beta1": True, "Stable": True}


def test_the_nearest_gate_is_suggested_for_an_unknown_one(gates: FeatureGates) -> None:
    with pytest.raises(FeatureGateError, match=r"unrecognized feature gate 'Alpha9'; did you mean Alpha1\?$"):
        gates.set_from_text("Alpha9=true")
    with pytest.raises(
        FeatureGateError, match=r"'Nope'; expected one of AllAlpha, AllBeta, Alpha1, .*Stable$"
    ):
        gates.set_from_text("Nope=true")


@pytest.mark.parametrize("text", ["Alpha1=yes", "Alpha1=", "Alpha1"])
def test_value_that_is_no_boolean_is_refused(gates: FeatureGates, text: str) -> None:
    with pytest.raises(FeatureGateError, match="'Alpha1': expected"):
        gates.set_from_text(text)


def test_error_changes_nothing(gates: FeatureGates) -> None:
    with pytest.raises(FeatureGateError):
        gates.set_from_text("Alpha1=true,Nope=true")
    assert not gates.enabled("Alpha1")


def test_locked_gate_keeps_its_default(gates: FeatureGates) -> None:
    gates.set_from_text("Stable=true")
    with pytest.raises(FeatureGateError, match="locked to true"):
        gates.set_from_text("Stable=false")


def test_koordinators_defaults() -> None:
    on = {name for name, enabled in feature_gates() if enabled}
    assert on == {
        "WebhookFramework",
        "PodMutatingWebhook",
        "PodValidatingWebhook",
        "ElasticMutatingWebhook",
        "ElasticValidatingWebhook",
    }
    own = {"PodDeviceEnvironment", "ProtectPodAllocation", "ReservationDeviceResourceSpec"}
    assert len(SPECS.keys() - own) == 25
