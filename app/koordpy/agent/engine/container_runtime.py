"""Flags of koordlet about the container runtime, which koordpy's agent does not talk to.

They are accepted, so that a koordlet's command line works, and each one that is given is answered by a
warning that says why it has no effect.
"""

import logging
from datetime import timedelta
from typing import Final

from koordpy.agent.interface.flags import FlagSet, FlagValue

log = logging.getLogger(__name__)

_NO_RUNTIME: Final = "containers are found and killed by their cgroups, no container runtime is asked"
_NO_PROXY: Final = "runtime hooks act by reconciliation, koord-runtime-proxy does not call this agent"
_NO_NRI: Final = "runtime hooks act by reconciliation, not as an NRI plugin of the container runtime"
_NOTHING_THERE: Final = "nothing that the agent reads is there"

NRI: Final = "enable-nri-runtime-hook"

_FLAGS: Final[tuple[tuple[str, FlagValue, str], ...]] = (
    ("var-run-root-dir", "", _NOTHING_THERE),
    ("run-root-dir", "", _NOTHING_THERE),
    ("containerd-endpoint", "", _NO_RUNTIME),
    ("docker-endpoint", "", _NO_RUNTIME),
    ("pouch-endpoint", "", _NO_RUNTIME),
    ("default-runtime-type", "containerd", _NO_RUNTIME),
    ("runtime-hooks-network", "unix", _NO_PROXY),
    ("runtime-hooks-addr", "/host-var-run-koordlet/koordlet.sock", _NO_PROXY),
    ("runtime-hooks-failure-policy", "Ignore", _NO_PROXY),
    ("runtime-hooks-plugin-failure-policy", "Ignore", _NO_PROXY),
    ("runtime-hooks-config-path", "/host-etc-hookserver/", _NO_PROXY),
    ("runtime-hooks-host-endpoint", "/var/run/koordlet/koordlet.sock", _NO_PROXY),
    ("runtime-hooks-disable-stages", "", "no stage of a container runtime is called"),
    (NRI, False, _NO_NRI),
    ("runtime-hooks-nri-connect-timeout", timedelta(seconds=6), _NO_NRI),
    ("runtime-hooks-nri-backoff-duration", timedelta(seconds=1), _NO_NRI),
    ("runtime-hooks-nri-backoff-cap", timedelta(), _NO_NRI),
    ("runtime-hooks-nri-backoff-steps", 2**31 - 1, _NO_NRI),
    ("runtime-hooks-nri-backoff-factor", 2.0, _NO_NRI),
    ("runtime-hooks-nri-socket-path", "nri/nri.sock", _NO_NRI),
    ("runtime-hooks-nri-plugin-name", "koordlet_nri", _NO_NRI),
    ("runtime-hooks-nri-plugin-index", "00", _NO_NRI),
)


class ContainerRuntimeFlags:
    """The flags. Defaults are koordlet's, but NRI is off."""

    @classmethod
    def init_flags(cls, flags: FlagSet) -> None:
        """Declare them."""
        for name, default, reason in _FLAGS:
            flags.declare(name, default, f"accepted without effect: {reason}")


def warn(flags: FlagSet) -> None:
    """Name the flags that were given; switching NRI off is what koordpy does anyway."""
    for name, _, reason in _FLAGS:
        if flags.is_given(name) and not (name == NRI and not flags.boolean(NRI)):
            log.warning("flag --%s has no effect: %s", name, reason)
