"""Chance where it is shown what may happen: it always goes for the profile, so that outputs repeat."""

import random


class Favourable(random.Random):
    """Rolls that every probability above 0 wins."""

    def randint(self, a: int, b: int) -> int:
        """Return the lowest number."""
        return a
