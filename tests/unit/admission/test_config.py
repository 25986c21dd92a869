from importlib.metadata import EntryPoint

import pytest

from koordpy.admission.config import (
    DEFAULT_HANDLERS,
    GROUP,
    AdmissionConfig,
    build_chains,
    order,
)
from koordpy.admission.gates import SPECS
from koordpy.admission.handler import Handler
from koordpy.admission.handler_entry import HandlerEntry
from koordpy.api.catalogue import Catalogue
from koordpy.api.config_model import ConfigError
from koordpy.api.plugin_errors import NameMismatch, NotAPlugin, NotInstalled, PluginError

from .reviews import ask, body, handle

IN_TREE = list(DEFAULT_HANDLERS)
MODULE = f"{__package__}.reviews"
CATALOGUE = Catalogue(
    GROUP,
    Handler,
    [
        EntryPoint(name, f"{MODULE}:{value}", GROUP)
        for name, value in {
            "mutate-pod.SetLabel": "SetLabel",
            "mutate-pod.Gated": "GatedHandler",
            "mutate-pod.Not": "NotAHandler",
            "mutate-pod.Alias": "SetLabel",
        }.items()
    ],
)


def names(**config: object) -> list[str]:
    return [entry.name for entry in order(AdmissionConfig.model_validate(config))]


def only(name: str, **entry: object) -> AdmissionConfig:
    return AdmissionConfig(enabled=[HandlerEntry.model_validate({"name": name, **entry})], disabled=["*"])


def test_in_tree_handlers_run_by_default() -> None:
    assert names() == IN_TREE


def test_third_party_handler_runs_last() -> None:
    assert names(enabled=[{"name": "mutate-pod.X"}]) == [*IN_TREE, "mutate-pod.X"]


def test_third_party_handler_runs_at_its_configured_position() -> None:
    enabled = [{"name": "mutate-pod.X", "before": IN_TREE[1]}]
    assert names(enabled=enabled) == [IN_TREE[0], "mutate-pod.X", *IN_TREE[1:]]


def test_handlers_can_be_disabled() -> None:
    assert names(disabled=IN_TREE[1:]) == IN_TREE[:1]
    assert names(disabled=["*"], enabled=[{"name": IN_TREE[1]}]) == IN_TREE[1:2]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"enabled": [{"name": "a"}, {"name": "a"}]}, "named twice"),
        ({"enabled": [{"name": "a", "before": "b"}]}, "'b' does not run"),
        ({"disabled": ["nope"]}, "got 'nope', expected an in-tree handler or \\*; `koordpy version` lists"),
        ({"disabled": ["mutate-pod.MultiQuotaTre"]}, r"did you mean mutate-pod\.MultiQuotaTree\?$"),
        ({"disabled": [IN_TREE[0]], "enabled": [{"name": IN_TREE[0]}]}, "is enabled too"),
    ],
)
def test_configuration_that_cannot_be_followed_is_refused(config: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        names(**config)


def test_handler_gets_its_arguments() -> None:
    chains = build_chains(only("mutate-pod.SetLabel", args={"value": "v"}), handle(), CATALOGUE)
    assert ask(chains["/mutate-pod"], body())["patch"][0]["value"] == {"set": "v"}


def test_wrong_argument_names_its_place_and_value() -> None:
    with pytest.raises(
        ConfigError, match=r"^admission\.enabled\[0\]\.args\.value: got 5, expected a valid string$"
    ):
        build_chains(only("mutate-pod.SetLabel", args={"value": 5}), handle(), CATALOGUE)


def test_the_nearest_handler_is_suggested_for_one_that_is_not_installed() -> None:
    with pytest.raises(
        NotInstalled,
        match=r'admission\.enabled\[0\]\.name: got "mutate-pod\.SetLable".* mean mutate-pod\.SetLabel\?$',
    ):
        build_chains(only("mutate-pod.SetLable"), handle(), CATALOGUE)


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("Not", NotAPlugin, r"NotAHandler'>, expected a subclass of koordpy\.admission\.handler\.Handler"),
        ("Alias", NameMismatch, 'name "mutate-pod.SetLabel", expected "mutate-pod.Alias"'),
    ],
)
def test_entry_point_that_is_not_the_handler_is_refused(
    name: str, error: type[PluginError], message: str
) -> None:
    with pytest.raises(error, match=message):
        build_chains(only(f"mutate-pod.{name}"), handle(), CATALOGUE)


def test_handler_whose_gate_is_off_is_left_out() -> None:
    off = build_chains(only("mutate-pod.Gated"), handle(), CATALOGUE)["/mutate-pod"]
    on = build_chains(only("mutate-pod.Gated"), handle(MultiQuotaTree=True), CATALOGUE)["/mutate-pod"]
    assert (len(off.handlers), len(on.handlers)) == (0, 1)


@pytest.mark.parametrize("gate", ["WebhookFramework", "PodMutatingWebhook"])
def test_path_whose_gate_is_off_is_not_served(gate: str) -> None:
    assert build_chains(only("mutate-pod.SetLabel"), handle(**{gate: False}), CATALOGUE) == {}


def test_in_tree_handlers_are_installed() -> None:
    gates = {gate: not gate.startswith("Disable") for gate in SPECS}
    chains = build_chains(AdmissionConfig(), handle(**gates))
    running = {handler.identity() for chain in chains.values() for handler in chain.handlers}
    assert running == set(IN_TREE)


def test_pod_handlers_run_in_koordinators_order() -> None:
    chain = build_chains(AdmissionConfig(), handle(MultiQuotaTree=True))["/mutate-pod"]
    assert [handler.name for handler in chain.handlers] == [
        "ClusterColocationProfile",
        "ExtendedResourceSpec",
        "MultiQuotaTree",
        "DeviceResourceSpec",
        "PreEnqueueGates",
    ]


def test_metrics_call_handlers_as_koordinators_dashboards_do() -> None:
    gates = {gate: not gate.startswith("Disable") for gate in SPECS}
    chains = build_chains(AdmissionConfig(), handle(**gates))
    handlers = [handler for chain in chains.values() for handler in chain.handlers]
    names = {handler.identity(): handler.metric_name or handler.name for handler in handlers}
    assert names["mutate-pod.MultiQuotaTree"] == "MultiQuotaTree"
    assert names["validate-pod.QuotaMetaCheck"] == "QuotaMetaChecker"
    assert names["validate-pod.EvaluateQuota"] == "EvaluateQuota"
    assert names["mutate-node-status.ResourceAmplification"] == "NodeResourceAmplificationPlugin"
    assert names["validate-node.SLOConfig"] == "SLOManagerConfigConflictForNode"
    assert names["validate-configmap.SLOControllerConfig"] == "SLOConfig"
    for webhook in ("mutate", "validate"):
        path = f"{webhook}-scheduling-sigs-k8s-io-v1alpha1-elasticquota"
        assert names[f"{path}.ElasticQuota"] == "QuotaMetaChecker"
