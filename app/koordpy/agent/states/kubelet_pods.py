"""The service that keeps the pods of this node as kubelet knows them (`--pod-source=kubelet`).

Kubelet is asked every `--kubelet-sync-interval`, and when a pod's directory appears. An error or an empty
answer keeps the pods that are known: a kubelet that starts again has none at first.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final

from koordpy.agent.interface.flags import FlagSet
from koordpy.agent.states.informer import StatesInformer
from koordpy.agent.states.kubelet import Kubelet, KubeletError, decode_pods
from koordpy.agent.states.pod_lifecycle import InotifyError, PodDirectories
from koordpy.api.decoding import DecodeError
from koordpy.cluster.errors import ApiError, ConnectionFailed
from koordpy.lib.clock import Clock
from koordpy.lib.token_bucket import TokenBucket

log = logging.getLogger(__name__)

SOURCE_FLAG: Final = "pod-source"
INTERVAL_FLAG: Final = "kubelet-sync-interval"
APISERVER, KUBELET = "apiserver", "kubelet"
_SYNCS_PER_SECOND: Final = 5.0
_SYNCS_BURST: Final = 10


class KubeletPods:
    """Asks kubelet for pods, and passes them to the states informer."""

    name: Final = "kubelet-pods"

    def __init__(
        self,
        kubelet: Kubelet,
        states: StatesInformer,
        directories: PodDirectories,
        flags: FlagSet,
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._kubelet, self._states, self._directories = kubelet, states, directories
        self._interval = flags.duration(INTERVAL_FLAG).total_seconds()
        self._bucket = TokenBucket(_SYNCS_PER_SECOND, _SYNCS_BURST, clock)
        self._sleep = sleep
        self._body = b""
        self._pod_appeared = asyncio.Event()
        self._failure: str | None = "kubelet has not been asked yet"

    @classmethod
    def init_flags(cls, flags: FlagSet) -> None:
        """Declare where pods come from, and how often kubelet is asked."""
        flags.declare(SOURCE_FLAG, APISERVER, "where the node's pods come from: apiserver or kubelet")
        flags.declare(INTERVAL_FLAG, timedelta(seconds=10), "time between two requests for kubelet's pods")
        Kubelet.init_flags(flags)

    async def run(self) -> None:
        """Sync until cancelled; an interval of 0 or less switches it off."""
        if self._interval <= 0:
            await asyncio.Event().wait()
        try:
            self._directories.start(self._pod_appeared.set)
        except InotifyError as error:
            log.warning("new pods are noticed only every %g s: %s", self._interval, error)
        try:
            while True:
                await self.sync()
                await self._wait()
        finally:
            self._directories.stop()

    def not_ready(self) -> str | None:
        """Return why no pods are known yet; a later failure keeps those that are."""
        return None if self._states.pods_known else self._failure

    async def sync(self) -> None:
        """Ask kubelet once; keep what is known after an error or an empty answer."""
        try:
            body = await self._kubelet.pods()
            if body == self._body:
                return
            pods = decode_pods(body)
        except (KubeletError, ApiError, ConnectionFailed, DecodeError) as error:
            if self._failure != str(error):
                log.warning("the pods of the node are not updated: %s", error)
            self._failure = str(error)
            return
        self._failure = None if pods else "kubelet has no pods"
        if pods:
            self._body = body
            self._states.set_pods(pods)

    async def _wait(self) -> None:
        """Wait for the interval, or for a pod to appear, within the rate of syncs."""
        timer = asyncio.ensure_future(self._sleep(self._interval))
        try:
            while not timer.done():
                self._pod_appeared.clear()
                appeared = asyncio.ensure_future(self._pod_appeared.wait())
                await asyncio.wait((timer, appeared), return_when=asyncio.FIRST_COMPLETED)
                appeared.cancel()
                if self._pod_appeared.is_set() and self._bucket.take():
                    return
        finally:
            timer.cancel()
