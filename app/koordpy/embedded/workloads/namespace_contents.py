"""What every namespace has: the service account `default` and the ConfigMap `kube-root-ca.crt`.

Source: Kubernetes, `pkg/controller/serviceaccount`, `pkg/controller/certificates/rootcacertpublisher`.
"""

from koordpy.api.core import ConfigMap, Namespace
from koordpy.api.scheme import Resource, resource_of
from koordpy.cluster.errors import AlreadyExists, Forbidden

from .controller import Context, Controller
from .objects import ServiceAccount

_ACCOUNT, _CONFIG_MAP = "default", "kube-root-ca.crt"
_NOTE = "kubernetes.io/description"
_ABOUT = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such "
    "as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions "
    "of Kubernetes clusters."
)


class NamespaceContents(Controller):
    """Creates what is missing in namespaces. The embedded API server has no certificate to publish."""

    name = "serviceaccount-controller"
    workers = 1

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._namespaces = context.cluster.store(Namespace)
        self._accounts = context.cluster.store(ServiceAccount)
        self._namespaces.subscribe(lambda item: self.queue.add(item.metadata.name))
        self._accounts.subscribe(on_delete=self._lost)

    def _lost(self, account: ServiceAccount) -> None:
        if account.metadata.name == _ACCOUNT:
            self.queue.add(account.metadata.namespace)

    async def reconcile(self, key: str) -> float | None:
        """Create what is missing in a namespace."""
        namespace = self._namespaces.get("", key)
        if namespace is None or namespace.metadata.deletion_timestamp is not None:
            return None
        if self._accounts.get(key, _ACCOUNT) is None:
            await self._create(resource_of(ServiceAccount), key, {"metadata": {"name": _ACCOUNT}})
        metadata = {"name": _CONFIG_MAP, "annotations": {_NOTE: _ABOUT}}
        document = {"metadata": metadata, "data": {"ca.crt": ""}}
        await self._create(resource_of(ConfigMap), key, document)
        return None

    async def _create(self, resource: Resource, namespace: str, document: dict[str, object]) -> None:
        typed = {"apiVersion": resource.api_version, "kind": resource.kind, **document}
        try:
            await self._client.create_raw(resource, namespace, typed)
        except AlreadyExists:
            return
        except Forbidden as error:
            if "being terminated" not in error.message:
                raise
