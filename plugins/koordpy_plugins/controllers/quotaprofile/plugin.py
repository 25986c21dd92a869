"""Keep the root quota of every quota tree at what the nodes of the tree can allocate.

An ElasticQuotaProfile selects nodes and names a quota. The controller gives the profile a tree id, creates
the quota and keeps it current: a change of the profile counts at once, changes of nodes within ten seconds.
Other labels and annotations of the quota are left alone; deleting a profile deletes nothing. Source:
Koordinator, `pkg/quota-controller/profile`.
"""

import logging
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Final

from koordpy.api import extension
from koordpy.api.core import Node
from koordpy.api.koordinator import ElasticQuota, ElasticQuotaProfile
from koordpy.api.label_selector import SelectorError
from koordpy.api.needs import Needs, Right
from koordpy.api.plugin import NoArgs
from koordpy.api.quantity import QuantityError
from koordpy.api.scheme import decode, resource_of
from koordpy.cluster.errors import ApiError, ConnectionFailed
from koordpy.controllers.interface import Controller, Handle, Plan
from koordpy.controllers.reconcile import ReconcileError, reconcile_forever

from .root_quota import NodeResources, RootQuota, tree_id

log = logging.getLogger(__name__)

CREATE_FAILED: Final = "CreateQuotaFailed"
UPDATE_FAILED: Final = "UpdateQuotaFailed"

AGAIN: Final = 10.0
"""Seconds after which a profile is reconciled again, since nodes change."""

AFTER_FAILURE: Final = 2.0
"""Seconds after which a failed write of a quota is repeated."""

_RESOURCE: Final = resource_of(ElasticQuota)


class QuotaProfileController(Controller):
    """The quota profile controller. The keys of its queue are `namespace/name` of profiles."""

    name: ClassVar[str] = "quotaprofile"
    needs: ClassVar[Needs] = Needs(
        rights=(
            Right("patch", "elasticquotaprofiles", "quota.koordinator.sh"),
            Right("create", "elasticquotas", "scheduling.sigs.k8s.io"),
            Right("patch", "elasticquotas", "scheduling.sigs.k8s.io"),
            Right("create", "events", "events.k8s.io"),
            Right("patch", "events", "events.k8s.io"),
        )
    )
    args: NoArgs

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.queue = handle.queue(self.name)
        self.nodes = handle.cluster.store(Node)
        self.profiles = handle.cluster.store(ElasticQuotaProfile, optional=True)
        self.quotas = handle.cluster.store(ElasticQuota, optional=True)

    def setup(self) -> None:
        """Follow profiles, quotas and nodes."""
        self.profiles.subscribe(on_add=self._enqueue, on_update=self._profile_updated)

    async def run(self) -> None:
        """Reconcile every profile, then each on a change and every ten seconds."""
        for profile in self.profiles:
            self._enqueue(profile)
        await reconcile_forever(self.queue, self.reconcile)

    async def reconcile(self, key: str) -> float | None:
        """Bring the quota of a profile up to date; return when to do so again.

        Raises ReconcileError for a selector or an amount that cannot be read, and what writing the tree id
        to the profile raises.
        """
        namespace, _, name = key.rpartition("/")
        profile = self.profiles.get(namespace, name)
        if profile is None:
            return None
        tree = await self._tree_id(profile)
        stored = self.quotas.get(namespace, profile.spec.quota_name)
        wanted = self.root_quota(profile, tree, self.nodes)
        try:
            await self._write(profile, stored, wanted)
        except (ApiError, ConnectionFailed) as error:
            reason, verb = (CREATE_FAILED, "create") if stored is None else (UPDATE_FAILED, "update")
            text = error.message if isinstance(error, ApiError) else error.problem
            self.handle.report(profile, reason, f"failed to {verb} quota, err: {text}")
            log.warning("profile %s: failed to %s quota: %s", key, verb, error)
            return AFTER_FAILURE
        return AGAIN

    def root_quota(self, profile: ElasticQuotaProfile, tree: str, nodes: Iterable[Node]) -> RootQuota:
        """Return what the quota of a profile should be. Raises ReconcileError."""
        try:
            return RootQuota.of(profile, tree, NodeResources.of(profile, nodes))
        except (SelectorError, QuantityError) as error:
            raise ReconcileError(f"ElasticQuotaProfile {profile.metadata.key}: {error}") from None

    def plan(self, document: dict[str, Any]) -> Iterator[Plan]:
        """Yield what would be written to the quota of a profile."""
        if document.get("kind") != "ElasticQuotaProfile":
            return
        profile = decode(ElasticQuotaProfile, document)
        namespace, name = profile.metadata.namespace, profile.spec.quota_name
        tree = profile.metadata.labels.get(extension.LABEL_QUOTA_TREE_ID) or tree_id(
            namespace, profile.metadata.name
        )
        stored = self.quotas.get(namespace, name)
        subject = f"{namespace}/{name}" if namespace else name
        try:
            wanted = self.root_quota(profile, tree, self.nodes)
        except ReconcileError as error:
            yield Plan(subject, {}, str(error))
            return
        yield Plan(subject, wanted.document(namespace, name) if stored is None else wanted.patch(stored))

    async def _tree_id(self, profile: ElasticQuotaProfile) -> str:
        """Return the id of a profile's tree; write it to the profile first if it has none."""
        metadata = profile.metadata
        known = metadata.labels.get(extension.LABEL_QUOTA_TREE_ID)
        if known:
            return known
        made = tree_id(metadata.namespace, metadata.name)
        # With the version, so that an id which somebody else gives at this moment is not replaced.
        patch: dict[str, Any] = {"metadata": {"labels": {extension.LABEL_QUOTA_TREE_ID: made}}}
        if metadata.resource_version:
            patch["metadata"]["resourceVersion"] = metadata.resource_version
        await self.handle.client.patch(ElasticQuotaProfile, metadata.namespace, metadata.name, patch)
        return made

    async def _write(
        self, profile: ElasticQuotaProfile, stored: ElasticQuota | None, wanted: RootQuota
    ) -> None:
        namespace, name = profile.metadata.namespace, profile.spec.quota_name
        client = self.handle.client
        if stored is None:
            await client.create_raw(_RESOURCE, namespace, wanted.document(namespace, name))
        elif patch := wanted.patch(stored):
            await client.patch(ElasticQuota, namespace, name, patch)

    def _enqueue(self, profile: ElasticQuotaProfile) -> None:
        self.queue.add(f"{profile.metadata.namespace}/{profile.metadata.name}")

    def _profile_updated(self, old: ElasticQuotaProfile, new: ElasticQuotaProfile) -> None:
        if old.spec != new.spec or old.metadata.annotations != new.metadata.annotations:
            self._enqueue(new)
