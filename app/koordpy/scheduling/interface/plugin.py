"""What every scheduling plugin has."""

from collections.abc import Iterable
from typing import Any, ClassVar, Final

from koordpy.api.needs import Lack
from koordpy.api.plugin import BasePlugin, PluginArgs

from .forms import check_forms
from .handle import Handle

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"


class Plugin(BasePlugin):
    """What every plugin has. Plugins are made once per profile, in the order of the profile's configuration.

    `name` is the name in configuration files; the annotation of `args` is the type of what `pluginConfig` may
    hold, whose defaults apply when the configuration does not have it. A plugin with a `feature` cannot be
    enabled while that gate is off. `reruns` names in-tree plugins whose PreFilter and Filter must run again
    after kube-scheduler has run them, because this plugin shows them amounts or pods of nodes that
    kube-scheduler does not see (`NodeTransformer`, `BeforeFilter`, `NodeTable.hidden`). `needs` declares
    requirements that cannot be detected otherwise. `watch_suffices` means that everything the plugin does
    once a node is chosen (Reserve and later) also follows from the watch showing the pod on its node, so that
    kube-scheduler may bind pods itself.
    """

    args_api_version: ClassVar[str] = API_VERSION
    handle: Handle
    reruns: ClassVar[tuple[str, ...]] = ()
    watch_suffices: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        check_forms(cls)

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)

    def lacks(self) -> Iterable[Lack]:
        """Return what the plugin lacks in the handle's cluster, for `koordpy doctor`.

        When it is called, everything that the plugin follows has been listed, except pods.
        """
        return ()
