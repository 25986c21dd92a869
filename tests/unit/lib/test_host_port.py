import pytest

from koordpy.lib import host_port


@pytest.mark.parametrize(
    ("address", "host", "port"),
    [
        (":", "", ""),
        ("a:", "a", ""),
        (":80", "", "80"),
        ("1.2.3.4:x", "1.2.3.4", "x"),
        ("[::1]:1", "::1", "1"),
    ],
)
def test_addresses_are_split(address: str, host: str, port: str) -> None:
    assert host_port.split(address) == (host, port)


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("", "missing port in address"),
        ("80", "address 80: missing port in address"),
        ("[::1]", "address [::1]: missing port in address"),
        ("[::1", "address [::1: missing ']' in address"),
        ("[::1]:1:2", "address [::1]:1:2: too many colons in address"),
        ("[::1]x:1", "address [::1]x:1: missing port in address"),
        ("::1", "address ::1: too many colons in address"),
        ("[[a]:1", "address [[a]:1: unexpected '[' in address"),
        ("a]:1", "address a]:1: unexpected ']' in address"),
    ],
)
def test_other_texts_are_refused_in_gos_words(address: str, problem: str) -> None:
    with pytest.raises(ValueError, match=r"address") as refused:
        host_port.split(address)
    assert str(refused.value) == problem


def test_hosts_with_colons_are_put_in_brackets() -> None:
    assert host_port.join("::1", 80) == "[::1]:80"
    assert host_port.join("a", "b") == "a:b"
