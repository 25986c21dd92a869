import logging
from collections.abc import Iterator

import pytest

from koordpy.lib.verbosity import set_verbosity

NAMES = ("", "uvicorn", "httpx")


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    levels = {name: logging.getLogger(name).level for name in NAMES}
    yield
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


@pytest.mark.parametrize(
    ("level", "own", "others"),
    [
        (-1, logging.INFO, logging.WARNING),
        (0, logging.INFO, logging.WARNING),
        (1, logging.INFO, logging.INFO),
        (2, logging.DEBUG, logging.DEBUG),
        (9, logging.DEBUG, logging.DEBUG),
    ],
)
def test_a_higher_level_logs_more(level: int, own: int, others: int) -> None:
    set_verbosity(level)
    assert logging.getLogger("koordpy").getEffectiveLevel() == own
    assert logging.getLogger("uvicorn.error").getEffectiveLevel() == others


def test_what_was_switched_on_can_be_switched_off_again() -> None:
    set_verbosity(2)
    set_verbosity(0)
    assert logging.getLogger("httpx").getEffectiveLevel() == logging.WARNING
