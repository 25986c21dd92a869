"""Why containers wait or have ended."""

from collections.abc import Iterable, Iterator

from koordpy.api.core import ContainerStatus


def waiting_reasons(statuses: Iterable[ContainerStatus]) -> Iterator[str]:
    """Yield the reasons for which containers wait, also empty ones."""
    for status in statuses:
        if status.state is not None and status.state.waiting is not None:
            yield status.state.waiting.reason


def reasons(statuses: Iterable[ContainerStatus]) -> Iterator[str]:
    """Yield the reasons for which containers wait or have ended, also empty ones."""
    for status in statuses:
        if status.state is not None:
            for state in (status.state.waiting, status.state.terminated):
                if state is not None:
                    yield state.reason


def exit_codes(statuses: Iterable[ContainerStatus]) -> Iterator[int]:
    """Yield the exit codes of containers that have ended."""
    for status in statuses:
        if status.state is not None and status.state.terminated is not None:
            yield status.state.terminated.exit_code
