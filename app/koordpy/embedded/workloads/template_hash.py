"""Hashes of pod templates, which name their pods and the objects that remember them."""

import random
from typing import Any

import msgspec

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Characters of generated names: no vowels, so no words. Source: `k8s.io/apimachinery/pkg/util/rand`."""
_SUFFIX = 5


def template_hash(template: dict[str, Any], collisions: int | None = None) -> str:
    """Return the hash of a template; another number of collisions gives another hash."""
    content = msgspec.json.encode(template, order="deterministic")
    if collisions is not None:
        content += b"/%d" % collisions
    value = 0x811C9DC5  # FNV-1a, 32 bits
    for byte in content:
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return safe(str(value))


def safe(text: str) -> str:
    """Encode a text with the alphabet of generated names."""
    return "".join(_ALPHABET[ord(character) % len(_ALPHABET)] for character in text)


def suffix(rng: random.Random) -> str:
    """Return the random end of a generated name."""
    return "".join(rng.choice(_ALPHABET) for _ in range(_SUFFIX))
