"""The stages of the container runtime (`pkg/koordlet/runtimehooks/hooks`).

Nothing calls them on a node yet: no container runtime delivers its requests to the agent. Reconciliation
gives running containers the same values.
"""

import logging
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from koordpy.agent.hooks.metrics import INVOKED, measured
from koordpy.agent.interface.hook import FailurePolicy, HookError, Response, Stage, StageFunction, by_name

log = logging.getLogger(__name__)


class Stages:
    """The functions of all hooks at all stages."""

    def __init__(self, functions: Iterable[StageFunction], node_name: str) -> None:
        """Raise HookError for two functions of the same name at one stage."""
        everything = tuple(functions)
        self._node_name = node_name
        self._functions = {stage: by_name(everything, stage) for stage in Stage}
        for stage, ordered in self._functions.items():
            for former, later in pairwise(ordered):
                if former.name == later.name:
                    raise HookError(f"runtime hook {later.name!r} has two functions at stage {stage}")

    def run(self, stage: Stage, request: Any, policy: FailurePolicy) -> tuple[Response, HookError | None]:
        """Call the functions of a stage; return what they want, and the error that stopped them.

        A function that fails keeps what it set before. With the policy Ignore the others are still called,
        and no error is returned.
        """
        response = Response()
        for function in self._functions[stage]:
            try:
                with measured(INVOKED, self._node_name, function.name, stage):
                    function.apply(request, response)
            except Exception as error:
                log.warning("runtime hook %s at stage %s: %s", function.name, stage, error)
                if policy is FailurePolicy.FAIL:
                    return response, error if isinstance(error, HookError) else HookError(str(error))
        return response, None
