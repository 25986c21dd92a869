"""How much is logged, by one number: 0 what matters, 1 more, 2 and above everything."""

import logging

_TALKATIVE = ("uvicorn", "httpx")


def set_verbosity(level: int) -> None:
    """Log so much from now on; numbers below 0 count as 0."""
    logging.getLogger().setLevel(logging.DEBUG if level > 1 else logging.INFO)
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.NOTSET if level > 0 else logging.WARNING)
