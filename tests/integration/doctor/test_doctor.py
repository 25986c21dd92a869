"""The doctor on clusters with one problem, which it must report with a fix, and nothing else."""

import asyncio
import base64
import copy
import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from koordpy import data
from koordpy.admission.serving import failure_policy
from koordpy.api.core import (
    Lease,
    MutatingWebhookConfiguration,
    Pod,
    PriorityClass,
    Secret,
    Service,
    ValidatingWebhookConfiguration,
)
from koordpy.api.koordinator import NodeMetric
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import resource_of
from koordpy.cli import cli
from koordpy.cluster.client import PatchType
from koordpy.commands import break_glass
from koordpy.doctor.definitions import DEFINITIONS
from koordpy.doctor.finding import State
from koordpy.features.feature import Part
from koordpy.lib import certificates
from tests.integration.doctor.clinic import (
    SECRET,
    SERVICE,
    SYSTEM,
    Clinic,
    Document,
    ago,
    clinic,
    lease,
    metric,
    shipped,
    webhook_pod,
)

MUTATING = "koordinator-mutating-webhook-configuration"
VALIDATING = "koordinator-validating-webhook-configuration"


@pytest.fixture
async def it(tmp_path: Path) -> AsyncIterator[Clinic]:
    async with clinic(tmp_path) as made:
        yield made


async def test_a_cluster_in_which_all_is_well_has_no_problem_and_no_warning(it: Clinic) -> None:
    report = await it.examine()
    bad = [f for f in report.findings if f.state in (State.PROBLEM, State.WARNING, State.UNKNOWN)]
    assert bad == []
    assert report.exit_code == 0
    areas = {finding.area for finding in report.findings if finding.state is State.OK}
    assert areas == {
        "configuration",
        "extender",
        "definitions",
        "webhooks",
        "plugins",
        "priority classes",
        "leases",
        "pods",
        "rights",
    }


async def test_an_empty_cluster_lacks_everything_and_says_what_for(tmp_path: Path) -> None:
    async with clinic(tmp_path, healthy=False, crds=[]) as empty:
        problems = await empty.problems()
    messages = {f"{finding.subject}: {finding.message}" for finding in problems}
    assert {finding.area for finding in problems} == {
        "definitions",
        "webhooks",
        "priority classes",
        "leases",
    }
    assert (
        "clustercolocationprofiles.config.koordinator.sh: is not installed; needed by "
        "mutate-pod.ClusterColocationProfile, which cannot start"
    ) in messages
    assert all(finding.fix for finding in problems)


# --- definitions -----------------------------------------------------------------------------------


async def edit_definition(it: Clinic, name: str, change: Callable[[Document], object]) -> None:
    document = await it.client.get_raw(DEFINITIONS, "", name)
    change(document)
    await it.client.update_raw(DEFINITIONS, "", name, document)


async def test_the_scheduler_of_koordinator_must_not_schedule_the_same_pods(it: Clinic) -> None:
    labels = {"koord-app": "koord-scheduler"}
    meta = {"name": "koord-scheduler-0", "namespace": SYSTEM, "labels": labels}
    spec = {"nodeName": "n0", "containers": [{"name": "koord-scheduler", "image": "koord-scheduler:v1.6"}]}
    await it.create(Pod, {"metadata": meta, "spec": spec})
    found = await it.problem()
    assert (found.area, found.subject) == ("extender", f"{SYSTEM}/koord-scheduler-0")
    assert found.fix.endswith(f"kubectl -n {SYSTEM} scale deployment koord-scheduler --replicas=0")
    await it.client.patch_status(Pod, SYSTEM, "koord-scheduler-0", {"status": {"phase": "Succeeded"}})
    assert await it.problems() == []


async def test_a_definition_that_a_feature_needs_is_missing(it: Clinic) -> None:
    await it.client.delete_raw(DEFINITIONS, "", "nodemetrics.slo.koordinator.sh")
    [found] = [finding for finding in await it.problems() if finding.area == "definitions"]
    assert "needed by LoadAwareScheduling" in found.message
    assert found.fix == "kubectl apply --server-side -f deploy/crds/nodemetrics.slo.koordinator.sh.yaml"


async def test_a_definition_that_nothing_needs_may_be_missing(it: Clinic) -> None:
    await it.client.delete_raw(DEFINITIONS, "", "recommendations.analysis.koordinator.sh")
    report = await it.examine()
    assert report.exit_code == 0
    [found] = [
        finding for finding in report.findings if finding.state is State.NOTE and "rec" in finding.subject
    ]
    assert "no enabled feature needs it" in found.message


async def test_a_definition_without_the_version_that_is_spoken(it: Clinic) -> None:
    def rename(document: Document) -> None:
        document["spec"]["versions"][0]["name"] = "v1beta9"

    name = "elasticquotas.scheduling.sigs.k8s.io"
    await it.client.delete_raw(DEFINITIONS, "", name)
    [document] = shipped("crds", f"{name}.yaml")
    rename(document)
    await it.client.create_raw(DEFINITIONS, "", document)
    [found] = [finding for finding in await it.problems() if finding.area == "definitions"]
    assert "does not serve v1alpha1 (it serves v1beta9)" in found.message


async def test_a_definition_that_is_older_than_ours_drops_fields(it: Clinic) -> None:
    def older(document: Document) -> None:
        schema = document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        del schema["properties"]["spec"]["properties"]["metricCollectPolicy"]

    await edit_definition(it, "nodemetrics.slo.koordinator.sh", older)
    report = await it.examine()
    [found] = [finding for finding in report.findings if finding.state is State.WARNING]
    assert "drops spec.metricCollectPolicy" in found.message


# --- webhooks --------------------------------------------------------------------------------------


async def test_a_webhook_configuration_is_missing(it: Clinic) -> None:
    await it.client.delete(MutatingWebhookConfiguration, "", MUTATING)
    found = await it.problem()
    assert found.subject == MUTATING
    assert "/mutate-pod" in found.message
    assert "deploy/webhooks/mutating.yaml" in found.fix


async def test_a_webhook_is_missing(it: Clinic) -> None:
    await it.edit(MutatingWebhookConfiguration, "", MUTATING, lambda d: d["webhooks"].pop(0))
    found = await it.problem()
    assert found.subject.endswith("mpod-create.koordinator.sh")
    # The entry for updates has the same path and does not cover creations.
    assert "leave out CREATE of pods" in found.message


def entry(document: Document, name: str) -> Document:
    return next(found for found in document["webhooks"] if found["name"] == name)


async def test_rules_that_leave_something_out(it: Clinic) -> None:
    def narrow(document: Document) -> None:
        entry(document, "vpod.koordinator.sh")["rules"][0]["operations"] = ["CREATE"]

    await it.edit(ValidatingWebhookConfiguration, "", VALIDATING, narrow)
    assert "leave out CREATE, UPDATE of pods" in (await it.problem()).message


async def test_wider_rules_are_good_enough(it: Clinic) -> None:
    def widen(document: Document) -> None:
        rule = entry(document, "vpod.koordinator.sh")["rules"][0]
        rule |= {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}

    await it.edit(ValidatingWebhookConfiguration, "", VALIDATING, widen)
    assert await it.problems() == []


async def test_a_ca_bundle_is_empty(it: Clinic) -> None:
    def empty(document: Document) -> None:
        entry(document, "mpod-create.koordinator.sh")["clientConfig"]["caBundle"] = ""

    await it.edit(MutatingWebhookConfiguration, "", MUTATING, empty)
    found = await it.problem()
    assert "caBundle is empty" in found.message
    assert found.subject.endswith("mpod-create.koordinator.sh")


async def test_a_ca_bundle_of_another_authority(it: Clinic) -> None:
    stranger = certificates.make_ca("stranger", datetime.now(UTC)).cert

    def swap(document: Document) -> None:
        for found in document["webhooks"]:
            found["clientConfig"]["caBundle"] = base64.b64encode(stranger).decode()

    await it.edit(MutatingWebhookConfiguration, "", MUTATING, swap)
    assert "is not the authority of the certificate that is served" in (await it.problem()).message


async def test_an_authority_that_has_ended(it: Clinic) -> None:
    old = certificates.make_ca("old", datetime.now(UTC) - timedelta(days=5000)).cert

    def swap(document: Document) -> None:
        for found in document["webhooks"]:
            found["clientConfig"]["caBundle"] = base64.b64encode(old).decode()

    await it.edit(ValidatingWebhookConfiguration, "", VALIDATING, swap)
    assert "ended" in (await it.problem()).message


async def test_the_certificate_in_a_folder_is_compared_too(it: Clinic, tmp_path: Path) -> None:
    certificates.ensure(tmp_path / "certs", ["localhost"], datetime.now(UTC))
    it.settings["admission"] = {
        "certDir": str(tmp_path / "certs"),
        "certificates": {"mode": "given"},
        "registration": {"enabled": False},
    }
    problems = await it.problems()
    assert {finding.subject.partition(":")[0] for finding in problems} == {MUTATING, VALIDATING}
    assert all("is not the authority" in finding.message for finding in problems)


async def test_no_certificate_was_made_yet(it: Clinic) -> None:
    await it.client.delete(Secret, SYSTEM, SECRET)
    assert "no webhook server has made its certificate yet" in (await it.problem()).message


async def policies(it: Clinic, policy: str, *names: str) -> None:
    """Set the failure policy of webhooks, of all pods' webhooks without names."""

    def change(document: Document) -> None:
        for found in document["webhooks"]:
            if found["name"] in names or (not names and found["name"].startswith("mpod")):
                found["failurePolicy"] = policy

    await it.edit(MutatingWebhookConfiguration, "", MUTATING, change)


async def about_policies(it: Clinic, state: State) -> list[str]:
    """Return "subject: message -> fix" of the findings about failure policies."""
    report = await it.examine()
    return [
        f"{found.subject}: {found.message} -> {found.fix}"
        for found in report.findings
        if found.state is state and found.subject.startswith((MUTATING, VALIDATING))
    ]


async def test_fail_is_recommended_once_the_webhooks_are_ready_with_a_command(it: Clinic) -> None:
    mutating, validating = await about_policies(it, State.NOTE)
    assert "failurePolicy is Ignore, and the webhooks are ready" in mutating
    assert "pods, reservations, elasticquotas" in mutating
    assert f"kubectl patch mutatingwebhookconfiguration {MUTATING} -p '" in mutating
    assert "components/webhooks-fail-closed" in validating
    patch = json.loads(re.findall(r"-p '(.*?)'", mutating)[0])
    await it.client.patch_raw(
        resource_of(MutatingWebhookConfiguration), "", MUTATING, patch, PatchType.STRATEGIC
    )
    [left] = await about_policies(it, State.NOTE)
    assert left.startswith(VALIDATING)
    assert (await it.examine()).exit_code == 0


async def test_fail_is_recommended_with_helm_where_helm_installed_it(it: Clinic) -> None:
    def annotate(document: Document) -> None:
        notes = {"meta.helm.sh/release-name": "k", "meta.helm.sh/release-namespace": "ns"}
        document["metadata"]["annotations"].update(notes)

    await it.edit(MutatingWebhookConfiguration, "", MUTATING, annotate)
    [found, _] = await about_policies(it, State.NOTE)
    assert (
        "helm upgrade k deploy/helm/koordpy -n ns --reuse-values --set webhooks.failurePolicy=Fail" in found
    )


async def test_fail_is_not_recommended_while_no_replica_is_ready(it: Clinic) -> None:
    await it.client.delete(Pod, SYSTEM, "koordpy-webhooks-0", grace_period_seconds=0)
    assert await about_policies(it, State.NOTE) == []


async def test_fail_without_a_ready_replica_is_warned_of(it: Clinic) -> None:
    await policies(it, "Fail")
    assert await about_policies(it, State.WARNING) == []
    await it.client.delete(Pod, SYSTEM, "koordpy-webhooks-0", grace_period_seconds=0)
    [found] = await about_policies(it, State.WARNING)
    assert "failurePolicy is Fail, and no replica is ready: pods are refused -> koordpy break-glass" in found


async def test_fail_where_no_manifest_has_it_is_warned_of(it: Clinic) -> None:
    it.settings["featureGates"] = {"NodeMutatingWebhook": True}
    await policies(it, "Fail", "mnode-status.koordinator.sh")
    [found] = await about_policies(it, State.WARNING)
    assert "which no manifest of koordpy's sets" in found


async def test_an_opened_configuration_is_warned_of(it: Clinic) -> None:
    await policies(it, "Fail")
    await break_glass.write(it.client, failure_policy.opened)
    [found] = await about_policies(it, State.WARNING)
    assert found.endswith("-> koordpy break-glass --undo, once the webhooks are ready")


async def test_the_service_is_missing(it: Clinic) -> None:
    await it.client.delete(Service, SYSTEM, SERVICE)
    assert "does not exist" in (await it.problem()).message


async def test_the_service_has_another_port(it: Clinic) -> None:
    await it.edit(Service, SYSTEM, SERVICE, lambda d: d["spec"]["ports"][0].update(port=8443))
    assert "has no port 443 (it has 8443)" in (await it.problem()).message


async def test_nobody_is_behind_the_service(it: Clinic) -> None:
    await it.client.delete(Pod, SYSTEM, "koordpy-webhooks-0", grace_period_seconds=0)
    assert "is ready: every webhook call fails" in (await it.problem()).message
    await it.create(Pod, webhook_pod(ready="False"))
    assert "is ready: every webhook call fails" in (await it.problem()).message


async def test_a_server_that_is_called_by_url_and_does_not_answer(it: Clinic) -> None:
    def by_url(document: Document) -> None:
        for found in document["webhooks"]:
            path = found["clientConfig"].pop("service")["path"]
            found["clientConfig"]["url"] = f"https://127.0.0.1:1{path}"

    await it.edit(MutatingWebhookConfiguration, "", MUTATING, by_url)
    report = await it.examine()
    [found] = [finding for finding in report.findings if finding.state is State.WARNING]
    assert "https://127.0.0.1:1 does not answer from here" in found.message
    assert report.exit_code == 0


async def test_webhooks_whose_gates_are_off_need_not_be_registered(it: Clinic) -> None:
    def drop(document: Document) -> None:
        document["webhooks"] = [
            w for w in document["webhooks"] if w["name"] != "velasticquota.koordinator.sh"
        ]

    await it.edit(ValidatingWebhookConfiguration, "", VALIDATING, drop)
    assert "velasticquota" in (await it.problem()).subject
    it.settings["featureGates"] = {"ElasticValidatingWebhook": False}
    assert await it.problems() == []


# --- the extender entries --------------------------------------------------------------------------


def filters(it: Clinic) -> Document:
    found: Document = it.scheduler["extenders"][0]
    return found


def binds(it: Clinic) -> Document:
    found: Document = it.scheduler["extenders"][1]
    return found


def put(entry_of: Callable[[Clinic], Document], **fields: Any) -> Callable[[Clinic], object]:
    return lambda it: entry_of(it).update(fields)


def take(entry_of: Callable[[Clinic], Document], field: str) -> Callable[[Clinic], object]:
    return lambda it: entry_of(it).pop(field)


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (lambda it: it.scheduler.pop("extenders"), r"no entry calls koordpy on port 9877"),
        (put(filters, urlPrefix="http://127.0.0.1:9877/koordpy"), r"answers under /extender, not /koordpy"),
        (put(binds, urlPrefix="http://127.0.0.1:1234/extender"), r"listens on port 9877, not 1234"),
        (put(binds, enableHTTPS=True), r"calls with TLS, koordpy speaks plain HTTP"),
        (put(filters, filterVerb="filters"), r"filterVerb is 'filters': koordpy answers /extender/filter"),
        (take(filters, "filterVerb"), r"LoadAwareScheduling.* do not filter nodes"),
        (take(filters, "prioritizeVerb"), r"LoadAwareScheduling do not score nodes"),
        (lambda it: it.scheduler["extenders"].pop(1), r"LoadAwareScheduling allocate nothing"),
        (put(filters, bindVerb="bind"), r"found 2 extenders implementing bind, expected 1"),
        (put(filters, weight=0), r"weight"),
        (put(binds, filterVerb="filter"), r"2 entries of koordpy's: it is called 2 times for every pod"),
        (put(filters, surprise=1), r"surprise"),
        (put(filters, managedResources=[{"name": "memory"}]), r"is an invalid extended resource name"),
        (
            lambda it: it.scheduler["profiles"].append({"schedulerName": "other"}),
            r"every filter call for its pods fails",
        ),
    ],
)
async def test_an_extender_entry_that_does_not_work(
    it: Clinic, spoil: Callable[[Clinic], object], expected: str
) -> None:
    spoil(it)
    problems = await it.problems()
    assert {finding.area for finding in problems} == {"extender"}
    assert any(re.search(expected, finding.message) for finding in problems), problems


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (put(filters, nodeCacheCapable=False), "sends whole Node objects"),
        (
            put(filters, managedResources=[{"name": "example.com/widget"}]),
            "koordpy is called only for pods that request example.com/widget",
        ),
        (put(binds, ignorable=True), "pods are placed without it"),
        (put(filters, httpTimeout="60s"), "one call that hangs blocks all scheduling"),
        (put(filters, httpTimeout="100ms"), "httpTimeout is 0.1 s"),
        (
            lambda it: [p.pop("plugins") for p in it.scheduler["profiles"]],
            "in-tree score weights are at most 3",
        ),
    ],
)
async def test_an_extender_entry_that_is_probably_not_meant(
    it: Clinic, spoil: Callable[[Clinic], object], expected: str
) -> None:
    spoil(it)
    report = await it.examine()
    warnings = [finding for finding in report.findings if finding.state is State.WARNING]
    assert warnings
    assert all(expected in finding.message and finding.fix for finding in warnings)
    assert report.exit_code == 0


def secured(it: Clinic, tmp_path: Path, **tls: str) -> None:
    """Let the extender require client certificates, and kube-scheduler call it with these TLS settings."""
    folder = tmp_path / "extender"
    it.settings["extender"] = {"certDir": str(folder)}
    for entry in it.scheduler["extenders"]:
        entry |= {"urlPrefix": "https://127.0.0.1:9877/extender", "enableHTTPS": True, "tlsConfig": tls}


CLIENT = {"caFile": "/e/ca-cert.pem", "certFile": "/e/client.crt", "keyFile": "/e/client.key"}


async def test_kube_scheduler_presents_the_client_certificate(it: Clinic, tmp_path: Path) -> None:
    secured(it, tmp_path, **CLIENT)
    assert (await it.examine()).counts[State.OK]
    assert await it.problems() == []
    secured(it, tmp_path, caFile="/e/ca-cert.pem")
    for found in await it.problems():
        assert "presents no client certificate: every call fails in the TLS handshake" in found.message
        assert f"certFile: {tmp_path}/extender/client.crt" in found.fix


async def test_kube_scheduler_does_not_verify_the_extender(it: Clinic, tmp_path: Path) -> None:
    secured(it, tmp_path, certFile="/e/client.crt", keyFile="/e/client.key")
    report = await it.examine()
    found = {f.message for f in report.findings if f.state is State.WARNING}
    assert found == {"kube-scheduler does not verify whom it calls: tlsConfig has no caFile"}


async def test_an_extender_that_does_not_start_because_others_could_call_it(it: Clinic) -> None:
    it.settings["extender"] = {"bindAddress": "0.0.0.0"}
    found = await it.problem()
    assert "0.0.0.0 is not loopback, and callers are not authenticated" in found.message


async def test_where_koordpy_chooses_the_node_no_scores_are_asked_for(it: Clinic) -> None:
    take(filters, "prioritizeVerb")(it)
    for profile in it.scheduler["profiles"]:
        del profile["plugins"]
    it.settings["extender"] = {"nodeChoice": "koordpy"}
    report = await it.examine()
    assert [f for f in report.findings if f.state in (State.PROBLEM, State.WARNING)] == []


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (
            lambda it: it.scheduler["profiles"][0]["plugins"]["score"]["enabled"][0].update(weight=7),
            r"other weights .*TaintToleration 3.* than kube-scheduler has .*TaintToleration 7",
        ),
        (
            lambda it: it.scheduler["profiles"][0].update(
                pluginConfig=[
                    {
                        "name": "NodeResourcesFit",
                        "args": {
                            "scoringStrategy": {
                                "type": "MostAllocated",
                                "resources": [{"name": "cpu", "weight": 1}],
                            }
                        },
                    }
                ]
            ),
            r"other arguments of this plugin",
        ),
        (
            lambda it: it.scheduler["extenders"].append(
                {"urlPrefix": "http://127.0.0.1:1/gpu", "filterVerb": "filter", "nodeCacheCapable": True}
            ),
            r"names one node alone",
        ),
    ],
)
async def test_where_koordpy_chooses_the_node_it_must_know_what_kube_scheduler_would(
    it: Clinic, spoil: Callable[[Clinic], object], expected: str
) -> None:
    it.settings["extender"] = {"nodeChoice": "koordpy"}
    it.scheduler["profiles"][1]["plugins"] = copy.deepcopy(it.scheduler["profiles"][0]["plugins"])
    spoil(it)
    report = await it.examine()
    [found] = [finding for finding in report.findings if finding.state is State.WARNING]
    assert re.search(expected, found.message)
    assert report.exit_code == 0


async def test_light_mode_wants_an_entry_without_bind(it: Clinic) -> None:
    it.settings["extender"] = {"mode": "light"}
    found = await it.problem()
    assert "every bind is refused" in found.message
    [it.scheduler] = shipped("scheduler", "kube-scheduler-config-light.yaml")
    report = await it.examine()
    assert [f for f in report.findings if f.state in (State.PROBLEM, State.WARNING)] == []


async def test_light_mode_with_a_plugin_that_needs_the_bind_call(
    it: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    from koordpy_plugins.scheduling.loadaware.plugin import LoadAwareScheduling

    monkeypatch.setattr(LoadAwareScheduling, "watch_suffices", False)
    it.settings["extender"] = {
        "mode": "light",
        "schedulerConfig": str(data.deploy("scheduler", "koordpy-profiles.yaml")),
    }
    [it.scheduler] = shipped("scheduler", "kube-scheduler-config-light.yaml")
    problems = await it.problems()
    assert {finding.area for finding in problems} == {"configuration"}
    assert any("plugin LoadAwareScheduling needs reserve" in finding.message for finding in problems)


# --- devices ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("gates", [(), ("ReservationMutatingWebhook", "ReservationDeviceResourceSpec")])
async def test_reserved_gpus_that_no_admitted_pod_requests(it: Clinic, gates: Sequence[str]) -> None:
    container = {"name": "main", "image": "main", "resources": {"requests": {"koordinator.sh/gpu": "100"}}}
    template = {"spec": {"schedulerName": "koord-scheduler", "containers": [container]}}
    owners = [{"labelSelector": {"matchLabels": {"app": "main"}}}]
    spec = {"template": template, "owners": owners, "ttl": "1h"}
    await it.create(Reservation, {"metadata": {"name": "gpus"}, "spec": spec})
    component = ("kustomize", "components", "numa-and-devices")
    file = data.deploy(*component, "koordpy-profiles-numa-and-devices.yaml")
    it.settings["extender"] = {"schedulerConfig": str(file)}
    it.settings["featureGates"] = dict.fromkeys(gates, True)
    report = await it.examine()
    found = [finding for finding in report.findings if (finding.area, finding.subject) == ("devices", "gpus")]
    assert [finding.state for finding in found] == ([] if gates else [State.WARNING])


# --- checks of plugins -----------------------------------------------------------------------------


async def warnings(it: Clinic) -> list[str]:
    """Return the messages of a report that has warnings of LoadAwareScheduling alone."""
    report = await it.examine()
    assert report.exit_code == 0
    found = [finding for finding in report.findings if finding.state is State.WARNING]
    assert {finding.subject for finding in found} == {"LoadAwareScheduling"}
    assert all(finding.fix for finding in found)
    return [finding.message for finding in found]


async def test_without_node_metrics_load_aware_placement_is_blind_which_is_no_failure(it: Clinic) -> None:
    await it.client.delete(NodeMetric, "", "n1")
    assert await warnings(it) == ["load-aware placement is blind on 1 of 2 nodes (n1): no NodeMetric"]
    await it.client.delete(NodeMetric, "", "n0")
    assert await warnings(it) == ["load-aware placement is blind on all 2 node(s): no NodeMetric"]


@pytest.mark.parametrize("refused", [True, False])
async def test_node_metrics_that_are_stale_or_were_never_filled_in_are_a_problem_where_they_keep_pods_off(
    it: Clinic, tmp_path: Path, refused: bool
) -> None:
    for name, updated in (("n0", ago(3600)), ("n1", None)):
        await it.client.delete(NodeMetric, "", name)
        await it.create(NodeMetric, metric(name, updated))
    if not refused:
        load_aware(it, tmp_path, enableScheduleWhenNodeMetricsExpired=True)
    effect = "no pod is placed on" if refused else "load-aware placement is blind on"
    messages = [found.message for found in await it.problems()] if refused else await warnings(it)
    assert messages == [
        f"{effect} 1 of 2 nodes (n1): NodeMetrics were never filled in",
        f"{effect} 1 of 2 nodes (n0): NodeMetrics are older than 180 s",
    ]


def load_aware(it: Clinic, folder: Path, **arguments: Any) -> None:
    """Change arguments of LoadAwareScheduling in the shipped profiles."""
    [document] = shipped("scheduler", "koordpy-profiles.yaml")
    for profile in document["profiles"]:
        [given] = [c["args"] for c in profile["pluginConfig"] if c["name"] == "LoadAwareScheduling"]
        given.update(arguments)
    (folder / "profiles.yaml").write_text(yaml.safe_dump(document))
    it.settings["extender"] = {"schedulerConfig": str(folder / "profiles.yaml")}


async def test_the_age_that_counts_is_the_one_of_the_profile(it: Clinic, tmp_path: Path) -> None:
    await it.client.delete(NodeMetric, "", "n0")
    await it.create(NodeMetric, metric("n0", ago(400)))
    assert len(await it.problems()) == 1
    load_aware(it, tmp_path, nodeMetricExpirationSeconds=600)
    assert await it.problems() == []


async def test_a_plugin_that_is_not_installed(it: Clinic, tmp_path: Path) -> None:
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {"schedulerName": name, "plugins": {"filter": {"enabled": [{"name": "Mystery"}]}}}
            for name in ("default-scheduler", "koord-scheduler")
        ],
    }
    file = tmp_path / "profiles.yaml"
    file.write_text(yaml.safe_dump(document))
    it.settings["extender"] = {"schedulerConfig": str(file)}
    assert any(
        finding.area == "configuration" and '"Mystery"' in finding.message for finding in await it.problems()
    )
    it.settings["extender"]["skipMissingPlugins"] = True
    [problem] = [finding for finding in await it.problems() if finding.area == "plugins"]
    assert problem.subject == "Mystery"
    assert all(f"profiles[{index}].plugins.filter.enabled[0].name" in problem.message for index in (0, 1))


# --- the rest --------------------------------------------------------------------------------------


async def test_priority_classes_that_are_missing_or_have_another_value(it: Clinic) -> None:
    await it.client.delete(PriorityClass, "", "koord-batch")
    assert (await it.problem()).subject == "koord-batch"
    [batch] = [
        d for d in shipped("priorityclasses", "koordinator.yaml") if d["metadata"]["name"] == "koord-batch"
    ]
    await it.create(PriorityClass, {**batch, "value": 7})
    assert "has value 7, expected 5000" in (await it.problem()).message


async def test_without_a_leader(it: Clinic) -> None:
    await it.client.delete(Lease, "kube-system", "kube-scheduler")
    assert "kube-scheduler was never elected" in (await it.problem()).message
    await it.create(Lease, lease("kube-system", "kube-scheduler", ago(0), holder=""))
    assert "has no holder" in (await it.problem()).message
    await it.client.delete(Lease, "kube-system", "kube-scheduler")
    await it.create(Lease, lease("kube-system", "kube-scheduler", ago(100)))
    assert re.search(r"10\d s ago by one and has expired", (await it.problem()).message)
    it.scheduler["leaderElection"] = {"leaderElect": False}
    assert await it.problems() == []


async def test_the_leases_of_workers_are_checked_where_they_are_deployed(it: Clinic) -> None:
    it.parts = (Part.CONTROLLERS,)
    it.settings["featureGates"] = {"ColocationProfileController": True}
    found = await it.problem()
    assert found.subject == "koordinator-system/koordinator-manager"
    await it.create(Lease, lease(SYSTEM, "koordinator-manager", ago(0), lasting=3600))
    assert await it.problems() == []


async def test_a_descheduler_without_configuration_cannot_start(it: Clinic, tmp_path: Path) -> None:
    it.parts = (Part.DESCHEDULER,)
    assert "expected a DeschedulerConfiguration file" in (await it.problem()).message
    shipped_file = Path(__file__).parents[3] / "deploy" / "kustomize" / "base" / "worker" / "descheduler.yaml"
    it.settings["worker"] = {"descheduler": {"config": str(shipped_file)}}
    assert (await it.problem()).subject == "koordinator-system/koord-descheduler"


@pytest.fixture
async def descheduled(it: Clinic, tmp_path: Path) -> dict[str, Any]:
    """The descheduler's configuration, which a test writes with `written`; its Lease is held."""
    it.parts = (Part.DESCHEDULER,)
    await it.create(Lease, lease(SYSTEM, "koord-descheduler", ago(0), lasting=3600))
    evictor = {"disabled": [{"name": "*"}], "enabled": [{"name": "DefaultEvictor"}]}
    return {
        "apiVersion": "descheduler/v1alpha2",
        "kind": "DeschedulerConfiguration",
        "leaderElection": {"leaderElect": True, "resourceNamespace": SYSTEM},
        "profiles": [
            {
                "name": "busy",
                "plugins": {
                    "balance": {"enabled": [{"name": "LowNodeLoad"}]},
                    "evict": evictor,
                    "filter": evictor,
                },
            }
        ],
    }


def written(it: Clinic, folder: Path, document: dict[str, Any]) -> None:
    file = folder / "descheduler.yaml"
    file.write_text(yaml.safe_dump(document))
    it.settings["worker"] = {"descheduler": {"config": str(file)}}


async def about_descheduling(it: Clinic) -> list[tuple[str, str, str]]:
    return [
        (found.state.value, found.subject, found.message)
        for found in (await it.examine()).findings
        if found.area == "descheduler"
    ]


async def test_a_descheduler_that_can_work_has_no_finding(
    it: Clinic, tmp_path: Path, descheduled: dict[str, Any]
) -> None:
    written(it, tmp_path, descheduled)
    assert await it.problems() == []
    assert await about_descheduling(it) == [
        ("ok", "nodes", "2 of 2 are ready and selected"),
        ("ok", "LowNodeLoad", "has what it needs"),
    ]


async def test_low_node_load_without_node_metrics_is_a_problem(
    it: Clinic, tmp_path: Path, descheduled: dict[str, Any]
) -> None:
    written(it, tmp_path, descheduled)
    await it.client.delete(NodeMetric, "", "n1")
    assert (await about_descheduling(it))[-1] == (
        "warning",
        "LowNodeLoad",
        "1 of 2 nodes (n1) have no NodeMetric younger than 180 s: they are neither relieved nor used as "
        "targets",
    )
    await it.client.delete(NodeMetric, "", "n0")
    found = await it.problem()
    assert (found.subject, found.message) == (
        "LowNodeLoad",
        "no node has a NodeMetric younger than 180 s: nothing is balanced",
    )


async def test_nodes_and_profiles_that_lead_to_no_eviction_are_found(
    it: Clinic, tmp_path: Path, descheduled: dict[str, Any]
) -> None:
    [profile] = descheduled["profiles"]
    descheduled |= {"dryRun": True}
    profile["nodeSelector"] = {"matchLabels": {"no": "node"}}
    profile["plugins"].pop("balance")
    profile["plugins"]["deschedule"] = {"disabled": [{"name": "*"}]}
    written(it, tmp_path, descheduled)
    assert await about_descheduling(it) == [
        ("note", "dryRun", "is set: rounds are recorded, and nothing is evicted"),
        ("ok", "nodes", "2 of 2 are ready and selected"),
        ("warning", "busy", "its nodeSelector matches no ready node"),
        ("warning", "busy", "has no Deschedule or Balance plugin: it evicts nothing"),
    ]
    descheduled["nodeSelector"] = {"matchLabels": {"no": "node"}}
    written(it, tmp_path, descheduled)
    assert (await it.problem()).message == (
        "0 of 2 are ready and selected: rounds do nothing with fewer than two"
    )


def migrating(document: dict[str, Any], **args: Any) -> dict[str, Any]:
    """Return a profile like the first one that evicts through MigrationController."""
    only = {"disabled": [{"name": "*"}], "enabled": [{"name": "MigrationController"}]}
    plugins = {**document["profiles"][0]["plugins"], "evict": only, "filter": only}
    given = {"apiVersion": "descheduler/v1alpha2", "kind": "MigrationControllerArgs", **args}
    config = [{"name": "MigrationController", "args": given}]
    return {"name": "busy", "plugins": plugins, "pluginConfig": config}


async def test_an_eviction_policy_without_its_gate_is_a_problem_as_in_the_worker(
    it: Clinic, tmp_path: Path, descheduled: dict[str, Any]
) -> None:
    descheduled["profiles"] = [migrating(descheduled, evictionPolicy="EvictionRequest")]
    written(it, tmp_path, descheduled)
    found = await it.problem()
    assert found.area == "configuration"
    assert "descheduler.yaml" in found.message
    assert "EvictionRequest" in found.message
    it.settings["featureGates"] = {"MigrationEvictionRequest": True}
    assert [each for each in await it.problems() if each.area == "configuration"] == []


async def test_profiles_that_cannot_run_together_are_a_problem(
    it: Clinic, tmp_path: Path, descheduled: dict[str, Any]
) -> None:
    first, second = (migrating(descheduled, maxMigratingPerNode=number) for number in (1, 2))
    descheduled["profiles"] = [first, {**second, "name": "busier"}]
    written(it, tmp_path, descheduled)
    assert "other arguments of MigrationController" in (await it.problem()).message


async def test_profiles_that_prove_evictions_are_read(
    it: Clinic, tmp_path: Path, descheduled: dict[str, Any]
) -> None:
    descheduled["profiles"][0]["proof"] = {"window": "1h"}
    written(it, tmp_path, descheduled)
    it.settings["worker"]["descheduler"]["schedulerConfig"] = str(tmp_path / "none.yaml")
    assert "none.yaml" in (await it.problem()).message


async def test_the_evictors_rights_are_reviewed(
    it: Clinic, tmp_path: Path, descheduled: dict[str, Any]
) -> None:
    written(it, tmp_path, descheduled)
    it.denied.add("create pods")
    assert "create pods/eviction" in {found.subject for found in await it.problems()}


async def test_the_qos_manager_needs_definitions_and_rights_only(it: Clinic) -> None:
    it.parts = (Part.AGENT,)
    assert await it.problems() == []
    await it.client.delete_raw(DEFINITIONS, "", "nodeslos.slo.koordinator.sh")
    message = (await it.problem()).message
    assert message.startswith("is not installed; needed by ")
    assert "CPUSuppresss" in message
    assert "BatchResource" in message


ACCOUNT = "system:serviceaccount:koordinator-system:koordpy-scheduler"


async def test_rights_that_are_missing_are_named_with_who_needs_them(tmp_path: Path) -> None:
    def is_allowed(spec: Document) -> bool:
        asked = spec["resourceAttributes"]
        return asked["resource"] != "nodemetrics" and asked.get("subresource") != "binding"

    async with clinic(tmp_path, is_allowed=is_allowed) as it:
        problems = await it.problems()
    assert [finding.subject for finding in problems] == [
        "create pods/binding",
        "list nodemetrics.slo.koordinator.sh",
        "watch nodemetrics.slo.koordinator.sh",
    ]
    assert "needed by DefaultBinder" in problems[0].message
    assert "needed by LoadAwareScheduling" in problems[1].message


async def test_the_rights_of_a_service_account_are_asked_for_by_its_name_and_groups(tmp_path: Path) -> None:
    seen: list[Document] = []

    def is_allowed(spec: Document) -> bool:
        seen.append(spec)
        return spec.get("user") == ACCOUNT

    async with clinic(tmp_path, is_allowed=is_allowed) as it:
        assert await it.problems() != []
        it.user = ACCOUNT
        assert await it.problems() == []
    assert seen[-1]["groups"] == [
        "system:authenticated",
        "system:serviceaccounts",
        "system:serviceaccounts:koordinator-system",
    ]


async def test_in_light_mode_no_right_to_bind_is_needed(tmp_path: Path) -> None:
    def is_allowed(spec: Document) -> bool:
        asked = spec["resourceAttributes"]
        return asked.get("subresource") != "binding" and (asked["verb"], asked["resource"]) != ("get", "pods")

    async with clinic(tmp_path, is_allowed=is_allowed) as it:
        it.settings["extender"] = {"mode": "light"}
        [it.scheduler] = shipped("scheduler", "kube-scheduler-config-light.yaml")
        assert await it.problems() == []


# --- what cannot be examined -----------------------------------------------------------------------


async def test_an_area_that_cannot_be_examined_does_not_stop_the_others(tmp_path: Path) -> None:
    from koordpy.embedded.apiserver import Fault

    def faults(method: str, path: str) -> Fault | None:
        return Fault(status=403) if "customresourcedefinitions" in path else None

    async with clinic(tmp_path) as it:
        it.server.faults = faults
        report = await it.examine()
    unknown = [finding for finding in report.findings if finding.state is State.UNKNOWN]
    assert [finding.area for finding in unknown] == ["definitions"]
    assert report.exit_code == 2
    assert {"leases", "rights"} <= {finding.area for finding in report.findings}


async def ask(*args: str) -> Any:
    return await asyncio.to_thread(CliRunner().invoke, cli, ["doctor", *args])


async def test_an_api_server_that_is_not_there_is_exit_code_2() -> None:
    told = await ask("--server", "http://127.0.0.1:1")
    assert told.exit_code == 2
    assert "cannot be reached" in told.output


# --- the command -----------------------------------------------------------------------------------


async def test_the_command_prints_text_json_and_yaml_and_its_exit_code_tells(
    it: Clinic, tmp_path: Path
) -> None:
    config = tmp_path / "koordpy.yaml"
    config.write_text(yaml.safe_dump(it.settings))
    options = ["--config", str(config), "--scheduler-config", str(tmp_path / "kube-scheduler.yaml")]
    await it.examine()  # writes the files
    well = await ask(*options)
    assert well.exit_code == 0, well.output
    assert "problem" not in well.output
    await it.client.delete(PriorityClass, "", "koord-free")
    ill = await ask(*options)
    assert ill.exit_code == 1
    assert "problem  koord-free: does not exist" in ill.output
    assert "-> kubectl apply -f deploy/priorityclasses/koordinator.yaml" in ill.output
    as_json = json.loads((await ask(*options, "-o", "json")).output)
    assert as_json["counts"]["problem"] == 1
    assert (
        yaml.safe_load((await ask(*options, "-o", "yaml")).output)["findings"][0]["area"] == "configuration"
    )
    told = await ask(*options, "--parts", "kitchen")
    assert told.exit_code != 0
    assert "expected one of admission, agent, controllers" in told.output


async def test_kube_schedulers_configuration_may_come_in_a_config_map(it: Clinic, tmp_path: Path) -> None:
    from koordpy.doctor.examination import Question, examine
    from koordpy.doctor.installation import parts_of
    from koordpy.settings import load

    inner = yaml.safe_dump({**it.scheduler, "extenders": []})
    file = tmp_path / "config-map.yaml"
    file.write_text(
        yaml.safe_dump({"apiVersion": "v1", "kind": "ConfigMap", "data": {"config.yaml": inner, "x": "y"}})
    )
    read = load(None, it.settings)
    report = await examine(it.client, Question(read, parts_of(read), file))
    [found] = [finding for finding in report.findings if finding.state is State.PROBLEM]
    assert "no entry calls koordpy" in found.message
