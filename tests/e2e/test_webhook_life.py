"""Two replicas of koordpy behind one address, and a real kube-apiserver that calls them.

The configurations are the shipped ones; koordpy completes them. Pods are created all the time by the official
client and by kubectl while profiles change, certificates are replaced and replicas come and go. Only a
replica that is killed may cost requests: those that it was answering.
"""

import base64
import json
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kubernetes
import pytest
import yaml
from cryptography import x509
from kubernetes.client.exceptions import ApiException

from koordpy import data
from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.controlplane.process import Process, free_port
from tests.eventually import PATIENCE
from tests.manifests.policies import fail_closed
from tests.servers.balancer import Balancer

MUTATING = "koordinator-mutating-webhook-configuration"
VALIDATING = "koordinator-validating-webhook-configuration"
SECRET = "koordinator-webhook-certs"
CLIENTS = 3
SECOND_TRY_SECONDS = 1.0


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A control plane of our own: webhooks that must not fail are no good neighbours."""
    with ControlPlane() as plane:
        plane.install_crds()
        plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(_namespaces()))
        plane.kubectl("apply", "-f", str(data.deploy("priorityclasses", "koordinator.yaml")))
        yield plane


def _namespaces() -> list[dict[str, Any]]:
    labels = {"koordinator-system": {"control-plane": "koordinator"}, "load": {}}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": own}}
        for name, own in labels.items()
    ]


@dataclass
class Site:
    """The replicas, and hands to reach the cluster."""

    plane: ControlPlane
    balancer: Balancer
    folder: Path
    replicas: dict[str, Process] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)

    def start(self, name: str) -> None:
        """Start a replica, and send requests to it when it is ready."""
        port = self.ports.setdefault(name, free_port())
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        settings = {
            "apiVersion": "config.koordpy.dev/v1alpha1",
            "kind": "KoordpyConfiguration",
            "parts": ["admission"],
            "shutdownDelay": "5s",
            "client": {"kubeconfig": str(self.plane.kubeconfig)},
            "admission": {
                "bindAddress": "127.0.0.1",
                "port": port,
                "certDir": str(folder / "certs"),
                "certificates": {"mode": "secret", "host": "127.0.0.1", "propagation": "10s"},
                "registration": {"port": self.balancer.port},
            },
        }
        (folder / "koordpy.yaml").write_text(yaml.safe_dump(settings))
        command = [sys.executable, "-c", "from koordpy.cli import main; main()", "serve"]
        self.replicas[name] = Process(name, [*command, "--config", folder / "koordpy.yaml"], folder)
        if port not in self.balancer.backends:
            self.balancer.backends.append(port)
        self.replicas[name].wait_ready(lambda: port in self.balancer.ready)

    def api(self) -> kubernetes.client.ApiClient:
        """Return a client of one's own: it is not for several threads."""
        configuration = kubernetes.client.Configuration()
        load: Any = kubernetes.config.load_kube_config
        load(str(self.plane.kubeconfig), client_configuration=configuration)
        return kubernetes.client.ApiClient(configuration)

    def get(self, *what: str) -> Any:
        return json.loads(self.plane.kubectl("get", *what, "-o", "json").stdout)

    def secret(self) -> dict[str, bytes]:
        found = self.get("secret", SECRET, "-n", "koordinator-system")["data"]
        return {name: base64.b64decode(text) for name, text in found.items()}

    def served(self, name: str) -> bytes:
        """Return the certificate that a replica shows to strangers, as PEM."""
        text = ssl.get_server_certificate(("127.0.0.1", self.ports[name]))
        return text.encode()

    def bundles(self) -> set[bytes]:
        found = [self.get("mutatingwebhookconfiguration", MUTATING)]
        found.append(self.get("validatingwebhookconfiguration", VALIDATING))
        return {
            base64.b64decode(webhook["clientConfig"]["caBundle"])
            for document in found
            for webhook in document["webhooks"]
        }


@pytest.fixture(scope="module")
def site(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    for file in ("mutating.yaml", "validating.yaml"):
        document = fail_closed(yaml.safe_load(data.deploy("webhooks", file).read_text()))
        plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(document))
    with Balancer(free_port()) as balancer:
        site = Site(plane, balancer, tmp_path_factory.mktemp("replicas"))
        plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(profile(0)))
        try:
            for name in ("a", "b"):
                site.start(name)
            yield site
        finally:
            for process in site.replicas.values():
                process.kill()


def profile(number: int) -> dict[str, Any]:
    """Return a profile that labels pods, twice."""
    return {
        "apiVersion": "config.koordinator.sh/v1alpha1",
        "kind": "ClusterColocationProfile",
        "metadata": {"name": "load"},
        "spec": {
            "selector": {"matchLabels": {"load": "yes"}},
            "labels": {"profile-one": str(number), "profile-two": str(number)},
            "qosClass": "BE",
            "priorityClassName": "koord-batch",
        },
    }


def pod(name: str) -> dict[str, Any]:
    requests = {"cpu": "1", "memory": "1Gi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "load", "labels": {"load": "yes"}},
        "spec": {
            "containers": [{"name": "main", "image": "app:1", "resources": {"requests": requests}}],
        },
    }


class Load:
    """Clients that create pods without a pause. What fails is tried once more, a moment later, as users do.

    At once would be too early after a kill: kube-apiserver keeps connections for later calls, and of those
    that ended at the killed replica some may not have been closed yet.

    `created` holds the pods as the API server made them, `failures` the first tries that failed.
    """

    def __init__(self, site: Site, prefix: str) -> None:
        self._site, self._prefix = site, prefix
        self.created: list[dict[str, Any]] = []
        self.failures: list[str] = []
        self.lost: list[str] = []
        """Pods whose second try failed too."""
        self.tries = 0
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._official, args=(n,)) for n in range(CLIENTS)]
        self._threads.append(threading.Thread(target=self._kubectl))

    @property
    def clients(self) -> int:
        return len(self._threads)

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        self.more(20)
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def more(self, pods: int) -> None:
        """Return when so many more pods were created."""
        wanted = len(self.created) + pods
        wait_until(lambda: len(self.created) >= wanted or bool(self.lost), f"{pods} more pods")

    def _official(self, client: int) -> None:
        with self._site.api() as api:
            core: Any = kubernetes.client.CoreV1Api(api)

            def create(document: dict[str, Any]) -> dict[str, Any]:
                try:
                    made = core.create_namespaced_pod("load", document)
                except ApiException as error:
                    raise RuntimeError(f"{error.status} {error.body}") from None
                found: dict[str, Any] = api.sanitize_for_serialization(made)
                return found

            self._create(f"{self._prefix}-{client}", create)

    def _kubectl(self) -> None:
        def create(document: dict[str, Any]) -> dict[str, Any]:
            text = json.dumps(document)
            found: dict[str, Any] = json.loads(
                self._site.plane.kubectl("create", "-f", "-", "-o", "json", stdin=text).stdout
            )
            return found

        self._create(f"{self._prefix}-kubectl", create)

    def _create(self, prefix: str, create: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        number = 0
        while not self._stopping.is_set():
            number += 1
            name = f"{prefix}-{number}"
            try:
                self.tries += 1
                self.created.append(create(pod(name)))
            except RuntimeError as error:
                self.failures.append(str(error))
                time.sleep(SECOND_TRY_SECONDS)
                try:
                    self.created.append(create(pod(name)))
                except RuntimeError as again:
                    self.lost.append(f"{name}: {again}")


def wait_until(condition: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"no {what} within {seconds:g} s"
        time.sleep(0.05)


def assert_all_were_mutated(load: Load, profiles: set[str]) -> None:
    """Every pod went through the webhooks: whole, and by one version of the profile."""
    for made in load.created:
        labels = made["metadata"]["labels"]
        assert labels["koordinator.sh/qosClass"] == "BE"
        assert labels["profile-one"] == labels["profile-two"]
        assert labels["profile-one"] in profiles
        requests = made["spec"]["containers"][0]["resources"]["requests"]
        assert requests == {"kubernetes.io/batch-cpu": "1k", "kubernetes.io/batch-memory": "1Gi"}


def assert_nothing_failed(load: Load) -> None:
    assert load.failures == []
    assert load.tries == len(load.created)


def test_the_shipped_configurations_are_completed(site: Site) -> None:
    mutating = site.get("mutatingwebhookconfiguration", MUTATING)
    validating = site.get("validatingwebhookconfiguration", VALIDATING)
    url = f"https://127.0.0.1:{site.balancer.port}"
    paths = {
        webhook["name"]: webhook["clientConfig"]["url"].removeprefix(url)
        for document in (mutating, validating)
        for webhook in document["webhooks"]
    }
    assert paths == {
        "mpod-create.koordinator.sh": "/mutate-pod",
        "mpod-update.koordinator.sh": "/mutate-pod",
        "melasticquota.koordinator.sh": "/mutate-scheduling-sigs-k8s-io-v1alpha1-elasticquota",
        "vpod.koordinator.sh": "/validate-pod",
        "vpodbinding.koordinator.sh": "/validate-pod-binding",
        "velasticquota.koordinator.sh": "/validate-scheduling-sigs-k8s-io-v1alpha1-elasticquota",
    }
    for document, count in ((mutating, 5), (validating, 5)):
        assert len(json.loads(document["metadata"]["annotations"]["template"])) == count
    assert site.bundles() == {site.secret()["ca-cert.pem"]}
    certificate = x509.load_pem_x509_certificate(site.secret()["tls.crt"])
    for name in site.replicas:
        assert x509.load_pem_x509_certificate(site.served(name)) == certificate


def test_a_refused_pod_is_told_why(site: Site) -> None:
    document = pod("refused")
    document["metadata"]["labels"] = {"koordinator.sh/qosClass": "BE"}
    done = site.plane.kubectl("create", "-f", "-", stdin=json.dumps(document), check=False)
    assert done.returncode != 0
    assert "qosClass=BE and priorityClass= cannot be used in combination" in done.stderr
    logs = "".join(process.log_tail(1000) for process in site.replicas.values())
    assert "/validate-pod: CREATE of pods load/refused refused with 400" in logs


def test_profiles_change_while_pods_are_created(site: Site) -> None:
    with Load(site, "profiles") as load:
        for number in range(1, 6):
            site.plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(profile(number)))
            load.more(10)
        wait_until(lambda: load.created[-1]["metadata"]["labels"]["profile-one"] == "5", "last profile")
    assert_nothing_failed(load)
    assert_all_were_mutated(load, {str(number) for number in range(6)})
    assert set(site.balancer.dealt) == set(site.ports.values())


@pytest.mark.parametrize("how", ["delete", "damage"])
def test_no_pod_fails_while_certificates_are_replaced(site: Site, how: str) -> None:
    old = site.secret()
    with Load(site, f"rotation-{how}") as load:
        if how == "delete":
            site.plane.kubectl("delete", "secret", SECRET, "-n", "koordinator-system")
        else:
            patch = json.dumps({"data": {"cert.pem": "", "ca-key.pem": ""}})
            site.plane.kubectl("patch", "secret", SECRET, "-n", "koordinator-system", "-p", patch)

        def replaced() -> bool:
            fresh = _certificate(site)
            return fresh not in (None, old["tls.crt"]) and all(
                site.served(name).strip() == (fresh or b"").strip() for name in site.replicas
            )

        wait_until(replaced, "new certificate")
        load.more(60)
    fresh = site.secret()
    assert fresh["ca-cert.pem"] != old["ca-cert.pem"]
    assert site.bundles() == {fresh["ca-cert.pem"].strip() + b"\n" + fresh["previous-ca-cert.pem"]}
    assert fresh["previous-ca-cert.pem"].startswith(old["ca-cert.pem"].strip()) or how == "damage"
    assert_nothing_failed(load)
    assert_all_were_mutated(load, {"5"})


def _certificate(site: Site) -> bytes | None:
    """Return the certificate in the Secret; None where there is none at the moment."""
    done = site.plane.kubectl("get", "secret", SECRET, "-n", "koordinator-system", "-o", "json", check=False)
    if done.returncode != 0:
        return None
    return base64.b64decode(json.loads(done.stdout)["data"].get("cert.pem", "")) or None


def test_a_replica_that_goes_drops_nothing(site: Site) -> None:
    with Load(site, "rolling") as load:
        for name in ("a", "b"):
            site.replicas[name].stop(60)
            load.more(20)
            site.start(name)
            load.more(20)
    assert_nothing_failed(load)
    assert_all_were_mutated(load, {"5"})


def test_a_replica_that_is_killed_costs_only_what_it_was_answering(site: Site) -> None:
    with Load(site, "killed") as load:
        site.replicas["a"].kill()
        load.more(60)
        site.start("a")
        load.more(20)
    # A call that is cut off is not repeated by kube-apiserver, and failurePolicy is Fail: at most one request
    # of each client is refused, and goes through at the next try.
    assert len(load.failures) <= load.clients
    assert all("failed calling webhook" in failure for failure in load.failures)
    assert load.lost == []
    assert len(load.created) == load.tries
    assert_all_were_mutated(load, {"5"})


def test_a_configuration_that_is_applied_again_is_completed_again(site: Site) -> None:
    site.plane.kubectl("replace", "-f", str(data.deploy("webhooks", "validating.yaml")))

    def completed() -> bool:
        found = site.get("validatingwebhookconfiguration", VALIDATING)["webhooks"]
        return len(found) == 3 and all("url" in webhook["clientConfig"] for webhook in found)

    wait_until(completed, "completed configuration")
    site.plane.kubectl("create", "-f", "-", stdin=json.dumps(pod("after")))
