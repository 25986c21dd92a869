"""A real control plane as a context manager: etcd, kube-apiserver and, when asked for, kube-scheduler.

It is what a cluster has without kubelets and controllers: tests create Node objects, pods get bound and never
run. Everything lives in one folder (certificates, kubeconfig, logs, etcd's data) and listens on free ports of
127.0.0.1. The one user is a member of ``system:masters`` who authenticates by token.
"""

import json
import os
import secrets
import shutil
import ssl
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from koordpy.lib.certificates import KeyType, make_ca
from tests.e2e.controlplane import build
from tests.e2e.controlplane.certificates import Authority
from tests.e2e.controlplane.process import Process, free_port

CRDS = Path(__file__).parents[3] / "deploy" / "crds"

_THROUGHPUT_FLAGS = (
    "--enable-priority-and-fairness=false",
    "--max-requests-inflight=4000",
    "--max-mutating-requests-inflight=2000",
)


class ControlPlane:
    """A running control plane, from ``with`` or ``start`` until ``stop``.

    ``scheduler_config`` is a KubeSchedulerConfiguration (a file or a document): given, kube-scheduler runs
    from the start; otherwise ``start_scheduler`` starts it later. ``throughput`` lifts the API server's own
    request limits, for benchmarks. ``folder`` keeps everything in a folder of the caller's, where it
    survives; without it a temporary folder is used, and removed by ``stop``.

    Start it, and its scheduler, on a thread that lives as long as they should (the main thread, never a
    worker of ``asyncio.to_thread``): on Linux the processes end with the thread that started them.

    Raises ``build.BinaryMissing`` on start when the binaries cannot be had, ``ProcessFailed`` when one of
    them does not come up.
    """

    def __init__(
        self,
        scheduler_config: Path | Mapping[str, Any] | None = None,
        *,
        throughput: bool = False,
        api_server_flags: Sequence[str] = (),
        folder: Path | None = None,
    ) -> None:
        self._scheduler_config = scheduler_config
        self._api_server_flags = (*(_THROUGHPUT_FLAGS if throughput else ()), *api_server_flags)
        self._own_folder = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="koordpy-control-plane-"))
        self.token = secrets.token_urlsafe(24)
        self.port = free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self.ca_file = self.folder / "ca.crt"
        self.kubeconfig = self.folder / "kubeconfig"
        self.etcd: Process | None = None
        self.api_server: Process | None = None
        self.scheduler: Process | None = None
        self._etcd_url = f"http://127.0.0.1:{free_port()}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start everything; returns when the API server (and the scheduler, if configured) is ready."""
        try:
            self._write_credentials()
            self._start_etcd()
            self.start_api_server()
            if self._scheduler_config is not None:
                self.start_scheduler(self._scheduler_config)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop what runs, last started first, and remove the temporary folder."""
        self.stop_scheduler()
        for process in (self.api_server, self.etcd):
            if process is not None:
                # Nothing in etcd is worth an orderly end; a temporary cluster goes at once.
                process.kill()
        self.api_server = self.etcd = None
        if self._own_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def start_api_server(self) -> Process:
        """Start kube-apiserver; returns when it is ready.

        ``start`` has done so once. A story that kills it (``api_server.kill()``) starts it again with this;
        it comes back under the same address with the objects that etcd holds.
        """
        service_account_key = self.folder / "service-account.key"
        self.api_server = Process(
            "kube-apiserver",
            [
                build.ensure(["kube-apiserver"])["kube-apiserver"],
                f"--etcd-servers={self._etcd_url}",
                "--bind-address=127.0.0.1",
                "--advertise-address=127.0.0.1",
                "--external-hostname=127.0.0.1",
                # The kubernetes service would need an endpoint that is not on loopback.
                "--endpoint-reconciler-type=none",
                f"--secure-port={self.port}",
                f"--cert-dir={self.folder / 'tls'}",
                f"--tls-cert-file={self._certificate}",
                f"--tls-private-key-file={self._key}",
                f"--token-auth-file={self.folder / 'tokens.csv'}",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={service_account_key}",
                f"--service-account-signing-key-file={service_account_key}",
                "--authorization-mode=RBAC",
                # Both wait for controllers, and none run here.
                "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
                "--service-cluster-ip-range=10.0.0.0/24",
                *self._api_server_flags,
            ],
            self.folder,
        )
        self.api_server.wait_ready(lambda: self._answers(f"{self.url}/readyz"))
        for namespace in ("default", "kube-system"):
            path = f"{self.url}/api/v1/namespaces/{namespace}"
            self.api_server.wait_ready(lambda path=path: self._answers(path))  # type: ignore[misc]
        return self.api_server

    def start_scheduler(self, config: Path | Mapping[str, Any], *flags: str) -> Process:
        """Start kube-scheduler with ``config`` and further flags; returns when it is ready.

        The connection to this API server is filled in, and leader election is switched off; all else of the
        configuration stays. Its ``/metrics`` are at ``scheduler_url`` for the plane's token.
        """
        if self.scheduler is not None and self.scheduler.running:
            raise RuntimeError("kube-scheduler runs already: stop_scheduler() first")
        self.scheduler, self.scheduler_url = self.run_scheduler(config, "kube-scheduler", *flags)
        return self.scheduler

    def run_scheduler(self, config: Path | Mapping[str, Any], name: str, *flags: str) -> tuple[Process, str]:
        """Start one more kube-scheduler, which the caller stops; return it when it is ready, and its URL."""
        document = dict(config if isinstance(config, Mapping) else yaml.safe_load(config.read_text()))
        connection = {"qps": 10000, "burst": 10000, **document.get("clientConnection", {})}
        document["clientConnection"] = {**connection, "kubeconfig": str(self.kubeconfig)}
        document["leaderElection"] = {**document.get("leaderElection", {}), "leaderElect": False}
        file = self.folder / f"{name}-config.yaml"
        file.write_text(yaml.safe_dump(document))
        port = free_port()
        url = f"https://127.0.0.1:{port}"
        scheduler = Process(
            name,
            [
                build.ensure(["kube-scheduler"])["kube-scheduler"],
                f"--config={file}",
                "--bind-address=127.0.0.1",
                f"--secure-port={port}",
                f"--tls-cert-file={self._certificate}",
                f"--tls-private-key-file={self._key}",
                f"--authentication-kubeconfig={self.kubeconfig}",
                f"--authorization-kubeconfig={self.kubeconfig}",
                *flags,
            ],
            self.folder,
        )
        try:
            scheduler.wait_ready(lambda: self._answers(f"{url}/readyz"))
        except BaseException:
            scheduler.kill()
            raise
        return scheduler, url

    def stop_scheduler(self) -> None:
        """Stop kube-scheduler, if it runs. ``scheduler.kill()`` crashes it instead."""
        if self.scheduler is not None:
            self.scheduler.stop()
            self.scheduler = None

    def kubectl(
        self, *args: str, stdin: str | None = None, check: bool = True, seconds: float = 120.0
    ) -> "subprocess.CompletedProcess[str]":
        """Run kubectl against this cluster; with ``check`` a failure raises with kubectl's own words."""
        done = subprocess.run(
            [str(build.ensure(["kubectl"])["kubectl"]), *args],
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig), "HOME": str(self.folder)},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        if check and done.returncode != 0:
            raise RuntimeError(
                f"kubectl {' '.join(args)} ended with {done.returncode}: {done.stderr.strip()}"
            )
        return done

    def install_crds(self, folder: Path = CRDS) -> None:
        """Create the CustomResourceDefinitions in ``folder`` (koordpy's own by default); returns when
        served.
        """
        self.kubectl("apply", "--server-side", "-f", str(folder))
        self.kubectl("wait", "--for=condition=Established", "-f", str(folder), "--timeout=120s")

    def ssl_context(self) -> ssl.SSLContext:
        """A client context that trusts this control plane's authority only."""
        return ssl.create_default_context(cafile=self.ca_file)

    def compact(self) -> None:
        """Make etcd forget all history before now, as the API server does every five minutes."""
        status = self._etcd_call("/v3/kv/range", {"key": "AA=="})
        self._etcd_call("/v3/kv/compaction", {"revision": status["header"]["revision"], "physical": True})

    def logs(self, lines: int = 40) -> str:
        """The end of each process' log."""
        processes = (self.etcd, self.api_server, self.scheduler)
        return "\n".join(process.log_tail(lines) for process in processes if process is not None)

    def _write_credentials(self) -> None:
        authority = Authority("koordpy test control plane")
        self.ca_file.write_bytes(authority.pem)
        self._certificate, self._key = authority.issue(self.folder / "tls", "127.0.0.1", "localhost")
        # RSA, because kube-apiserver reads a public key out of PKCS#1 but not out of PKCS#8.
        service_accounts = make_ca("service accounts", datetime.now(UTC), KeyType.RSA)
        (self.folder / "service-account.key").write_bytes(service_accounts.key)
        (self.folder / "tokens.csv").write_text(f'{self.token},admin,admin,"system:masters"\n')
        cluster = {"server": self.url, "certificate-authority": str(self.ca_file)}
        context = {"cluster": "test", "user": "admin"}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "admin", "user": {"token": self.token}}],
            "contexts": [{"name": "test", "context": context}],
            "current-context": "test",
        }
        self.kubeconfig.touch(mode=0o600)
        self.kubeconfig.write_text(yaml.safe_dump(document))

    def _start_etcd(self) -> None:
        peer = f"http://127.0.0.1:{free_port()}"
        self.etcd = Process(
            "etcd",
            [
                build.ensure(["etcd"])["etcd"],
                f"--data-dir={self.folder / 'etcd'}",
                f"--listen-client-urls={self._etcd_url}",
                f"--advertise-client-urls={self._etcd_url}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=default={peer}",
                "--unsafe-no-fsync",
                "--log-level=error",
            ],
            self.folder,
        )
        self.etcd.wait_ready(lambda: self._answers(f"{self._etcd_url}/health"))

    def _answers(self, url: str) -> bool:
        """Whether a GET of ``url`` is answered with success."""
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {self.token}"})
        try:
            with self._opener().open(request, timeout=5):
                return True
        except (OSError, urllib.error.URLError):
            return False

    def _etcd_call(self, path: str, body: Mapping[str, Any]) -> Any:
        request = urllib.request.Request(self._etcd_url + path, data=json.dumps(body).encode())
        with self._opener().open(request, timeout=60) as response:
            return json.load(response)

    def _opener(self) -> urllib.request.OpenerDirector:
        """An opener that never goes through a proxy of the environment."""
        return urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self.ssl_context())
        )
