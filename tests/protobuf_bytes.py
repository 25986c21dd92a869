"""Protobuf bodies of Kubernetes, made by hand."""


def varint(value: int) -> bytes:
    encoded = b""
    while value > 127:
        encoded += bytes([value & 127 | 128])
        value >>= 7
    return encoded + bytes([value])


def nested(number: int, content: bytes) -> bytes:
    """A field with a length: text, bytes or a message."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def body(kind: str, raw: bytes, version: str = "v1") -> bytes:
    """A body that starts as Kubernetes' do: with a magic number, version and kind."""
    about = nested(1, version.encode()) + nested(2, kind.encode())
    return b"k8s\0" + nested(1, about) + nested(2, raw)
