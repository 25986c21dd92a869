"""Errors logged during a simulation are reported with its result."""

import logging

from koordpy.simulation.errors import LoggedErrors

log = logging.getLogger("koordpy.somewhere")


def test_each_kind_of_error_is_reported_once_with_its_count() -> None:
    with LoggedErrors() as errors:
        for number in range(3):
            log.error("pod %s broke", number)
        log.warning("this is none")
        try:
            raise ValueError("no such thing")
        except ValueError:
            log.exception("a cycle failed")
    log.error("afterwards")
    assert errors.told == ["pod 0 broke (3 such errors)", "a cycle failed: ValueError: no such thing"]
