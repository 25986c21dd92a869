"""What features need, as it is found by making them; and that the page and the roles say the same."""

from pathlib import Path
from typing import ClassVar

import pytest
import yaml

from koordpy import settings
from koordpy.admission.handler import Handle as AdmissionHandle
from koordpy.admission.handler import Request, ValidatingHandler
from koordpy.api import plugin
from koordpy.api.core import ConfigMap, Pod
from koordpy.api.koordinator import NodeSLO
from koordpy.api.needs import Needs, Right
from koordpy.api.plugin import PluginArgs
from koordpy.api.pod_groups import KubernetesPodGroup, KubernetesPodGroupV1Alpha2, Workload
from koordpy.compose.parts.debug import DebugPart
from koordpy.features import catalog
from koordpy.features.catalog import features
from koordpy.features.feature import Feature, Part, followed, following, shipped_definitions
from koordpy.features.page import page
from koordpy.features.parts import NETWORK_TOPOLOGY, PARTS, rights
from koordpy.scheduling.interface import Permit, Plugin, Score
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.status import SUCCESS, Status
from tests.manifests.render import DEPLOY
from tests.manifests.rights import Grant, grants_of, shipped_grants

ROOT = Path(__file__).parents[3]


class ThirdParty(Plugin, Score, Permit):
    """A third-party plugin: follows NodeSLOs, writes pods, lets pods wait."""

    name = "ThirdParty"
    needs = Needs(rights=(Right("patch", "pods"),), longest_wait=30, elsewhere=("a licence",))

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        handle.on(NodeSLO)

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return 0

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        return SUCCESS


class ThirdPartyHandler(ValidatingHandler):
    name: ClassVar[str] = "Audit"
    path: ClassVar[str] = "/validate-node"
    needs: ClassVar[Needs] = Needs(rights=(Right("create", "configmaps"),))

    def __init__(self, args: plugin.PluginArgs, handle: AdmissionHandle) -> None:
        super().__init__(args, handle)
        handle.cluster.store(ConfigMap)

    def validate(self, request: Request) -> None:
        pass


def by_name() -> dict[str, Feature]:
    return {feature.name: feature for feature in features()}


def test_what_a_scheduling_plugin_follows_and_does_is_seen_and_the_rest_is_its_needs() -> None:
    found = catalog.scheduling_plugin(ThirdParty)
    assert {resource.kind for resource in found.follows} >= {"NodeSLO"}
    assert found.definitions == ("nodeslos.slo.koordinator.sh",)
    assert found.verbs == ("prioritize", "bind")
    assert found.rights == (Right("patch", "pods"),)
    assert found.elsewhere == ("a licence",)
    assert found.in_light_mode is False
    assert found.on_by_default is False


class Demanding(ThirdParty):
    """Has an argument without a default."""

    class Args(PluginArgs):
        zone: str

    name = "Demanding"
    args: Args


def test_a_plugin_without_defaults_is_seen_with_its_arguments_only() -> None:
    unseen = catalog.scheduling_plugin(Demanding)
    assert unseen.elsewhere == ("a licence", catalog.UNKNOWN_WITHOUT_ARGUMENTS)
    assert unseen.definitions == ()
    seen = catalog.scheduling_plugin(Demanding, Demanding.Args(zone="a"))
    assert seen.elsewhere == ("a licence",)
    assert seen.definitions == ("nodeslos.slo.koordinator.sh",)


def test_what_a_handler_needs_is_its_path_its_gates_and_what_it_follows() -> None:
    found = catalog.handler(ThirdPartyHandler)
    assert found.webhooks == ("/validate-node",)
    assert found.gates == ("NodeValidatingWebhook",)
    assert found.on_by_default is False
    assert [resource.plural for resource in found.follows] == ["configmaps"]
    assert found.rights == (Right("create", "configmaps"),)


def test_every_kind_of_feature_is_there() -> None:
    found = features()
    assert {feature.part for feature in found} == set(Part)
    named = by_name()
    load = named["LoadAwareScheduling"]
    assert (load.verbs, load.in_light_mode) == (("filter", "prioritize", "bind"), True)
    assert load.definitions == ("nodemetrics.slo.koordinator.sh",)
    assert named["colocationprofile"].gates == ("ColocationProfileController",)
    assert named["DefaultEvictor"].rights == (Right("create", "pods/eviction"),)
    assert named["CPUSuppresss"].on_by_default is True
    assert named["mutate-pod.ExtendedResourceSpec"].gates == (
        "PodMutatingWebhook",
        "-DisableExtendedResourceSpec",
    )


def test_custom_resources_that_features_follow_have_a_definition_that_is_shipped() -> None:
    followed = {found for feature in features() for found in feature.follows}
    custom = {f"{found.plural}.{found.group}" for found in followed if "koordinator" in found.group}
    assert custom
    assert custom <= shipped_definitions()


def test_the_page_is_what_the_features_say() -> None:
    written = (ROOT / "docs" / "features.md").read_text()
    assert written == page(), "run: koordpy features --markdown > docs/features.md"


# --- the shipped roles -----------------------------------------------------------------------------

DEPLOYED = {
    Part.ADMISSION: "webhooks",
    Part.EXTENDER: "extender",
    Part.DESCHEDULER: "worker",
    Part.AGENT: "qos-agent",
}
CONFIGURED = {"LowNodeLoad", "MigrationController", "proof before eviction"}
"""What the shipped descheduler configuration names."""


def needed_rights(part: Part, given: settings.Settings, on: list[Feature]) -> set[Right]:
    found = set(rights(part, given, leads=any(feature.leads for feature in on)))
    found |= set(DebugPart.needs(given).rights)
    found |= set(following(catalog.frame_follows(part)))
    for feature in on:
        found |= {*feature.rights, *following(feature.follows)}
    return found


def derived(part: Part) -> set[Right]:
    """The rights of a part as it is deployed: of its frame, and of the features that are on."""
    given = settings.load(DEPLOY / "kustomize" / "base" / DEPLOYED[part] / "koordpy.yaml")
    if part is Part.DESCHEDULER:
        config = DEPLOY / "kustomize" / "base" / "worker" / "descheduler.yaml"
        descheduler = given.worker.descheduler.model_copy(update={"config": str(config)})
        worker = given.worker.model_copy(update={"descheduler": descheduler})
        given = given.model_copy(update={"worker": worker})
    of_part = [feature for feature in features() if feature.part is part]
    on = [feature for feature in of_part if feature.on_by_default or feature.name in CONFIGURED]
    needed = needed_rights(part, given, on)
    if part is Part.DESCHEDULER:  # the worker runs the controllers too
        controllers = [
            found for found in features() if found.part is Part.CONTROLLERS and found.on_by_default
        ]
        needed |= needed_rights(Part.CONTROLLERS, given, controllers)
    return needed


def granted(part: Part) -> set[Right]:
    role = "koordpy-scheduler"  # kube-scheduler's own, which shares the extender's service account
    grants: list[Grant] = shipped_grants(PARTS[part].component, PARTS[part].account)
    return {Right(g.verb, g.resource, g.group, g.namespace, g.name) for g in grants if g.role != role}


def of_component(name: str) -> set[Right]:
    folder = DEPLOY / "kustomize" / "components" / name
    text = "\n---\n".join(path.read_text() for path in sorted(folder.rglob("rbac.yaml")))
    grants = grants_of("koordpy-scheduler", list(yaml.safe_load_all(text)))
    return {Right(g.verb, g.resource, g.group, g.namespace, g.name) for g in grants}


@pytest.mark.parametrize(
    ("component", "feature"),
    [("reservations", "Reservation"), ("schedule-explanations", "ScheduleExplanations")],
)
def test_the_role_of_a_component_is_what_its_feature_needs_besides(component: str, feature: str) -> None:
    of_part = [found for found in features() if found.part is Part.EXTENDER]
    on = [found for found in of_part if found.on_by_default or found.name == feature]
    given = settings.load(DEPLOY / "kustomize" / "base" / "extender" / "koordpy.yaml")
    needed = needed_rights(Part.EXTENDER, given, on) - derived(Part.EXTENDER)
    assert sorted(map(str, of_component(component))) == sorted(map(str, needed))


def test_the_role_for_gangs_of_kubernetes_is_what_their_types_need() -> None:
    types = (Workload, KubernetesPodGroup, KubernetesPodGroupV1Alpha2)
    assert of_component("kubernetes-gangs") == set(following(followed(types)))


SWITCHED = {*NETWORK_TOPOLOGY.rights, *following(NETWORK_TOPOLOGY.follows)}
"""What the base roles grant for a feature that settings switch on."""


@pytest.mark.parametrize("part", list(DEPLOYED), ids=str)
def test_the_shipped_role_is_what_the_features_need(part: Part) -> None:
    assert sorted(map(str, derived(part) - granted(part))) == []
    assert sorted(map(str, granted(part) - derived(part) - SWITCHED)) == []
