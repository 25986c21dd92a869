"""What every scheduling plugin has."""

from collections.abc import Iterable
from typing import ClassVar

from koordpy.api.needs import Lack, Needs

from .args import NoArgs, PluginArgs
from .forms import check_forms
from .handle import Handle


class Plugin:
    """What every plugin has. Plugins are made once per profile, in the order of the profile's configuration.

    `name` is the name in configuration files. `args_type` says what the plugin's `pluginConfig` may hold;
    its defaults apply when the configuration says nothing. `looks_again` names in-tree filters that have to
    run after this plugin's BeforeFilter also where kube-scheduler has run them already, because BeforeFilter
    shows them nodes that kube-scheduler did not see. `needs` is what it cannot work without and does not show
    otherwise. `watch_suffices` says that whatever the plugin does once a node is chosen (Reserve and later)
    also follows from the watch showing the pod on its node, so that kube-scheduler may bind by itself.
    """

    name: ClassVar[str]
    args_type: ClassVar[type[PluginArgs]] = NoArgs
    looks_again: ClassVar[tuple[str, ...]] = ()
    needs: ClassVar[Needs] = Needs()
    watch_suffices: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        check_forms(cls)

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        self.args = args
        self.handle = handle

    def lacks(self) -> Iterable[Lack]:
        """Return what the plugin lacks in the cluster as the handle has it, for `koordpy doctor`.

        Everything that the plugin follows has been listed when it is called, pods aside.
        """
        return ()
