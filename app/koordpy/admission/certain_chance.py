"""Chance for previews: every probability above 0 happens, so that a preview shows all that may happen."""

import random


class CertainChance(random.Random):
    """Draws the number for which every probability above 0 is enough."""

    def randint(self, a: int, b: int) -> int:
        """Return the lowest number."""
        return a
