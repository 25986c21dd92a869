"""Numbers of things in messages."""


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun, in the plural where needed: `1 node`, `5,000 nodes`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def are(number: int) -> str:
    """Return the verb after so many things."""
    return "is" if number == 1 else "are"


def have(number: int) -> str:
    """Return the verb after so many things."""
    return "has" if number == 1 else "have"
