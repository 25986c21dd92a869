"""What the ElasticQuota plugin runs and shows beside scheduling: controllers in the leader, a REST API."""

import logging
from collections.abc import Callable, Mapping, Sequence

from koordpy.api.quota.args import ElasticQuotaArgs
from koordpy.scheduling.interface import APIService, Controller, ControllerProvider
from koordpy.scheduling.interface.handle import Handle

from .controllers.controller import ElasticQuotaController
from .controllers.overuse_revoke import QuotaOverUsedRevokeController
from .service import QuotaService
from .state.trees import QuotaTrees

log = logging.getLogger(__name__)


class QuotaControllers(ControllerProvider, APIService):
    """A base class of the plugin."""

    args: ElasticQuotaArgs
    handle: Handle
    trees: QuotaTrees

    def controllers(self) -> Sequence[Controller]:
        """Return the status controller, and the one that revokes over-used resources if it is on."""
        made: list[Controller] = [ElasticQuotaController(self.args, self.handle, self.trees)]
        if QuotaOverUsedRevokeController.is_enabled(self.args):
            made.append(QuotaOverUsedRevokeController(self.args, self.handle, self.trees))
        else:
            log.info(
                "no pods are evicted from quotas that use too much: monitorAllQuotas is %s, "
                "enableRuntimeQuota %s",
                self.args.monitor_all_quotas,
                self.args.enable_runtime_quota,
            )
        return made

    def endpoints(self) -> Mapping[str, Callable[..., object]]:
        """Return the REST endpoints of quotas."""
        return QuotaService(self.trees).endpoints()
