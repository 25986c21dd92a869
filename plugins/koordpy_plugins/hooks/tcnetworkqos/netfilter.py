"""Which class packets belong to: an nftables table, `inet koordpy`, replaced as a whole in one transaction.

Its chain runs behind routing and before source addresses are translated, where koordlet has rules of iptables
with ipsets. It sets the priority of a packet to the HTB class of its source address; packets of processes of
the node, which share the node's address, get that of their cgroup (`net_cls.classid`). No program is started.

The name of the chain tells for which interface and which classes the table was made.
"""

import ipaddress
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pyroute2.netlink import NLM_F_ACK, NLM_F_APPEND, NLM_F_CREATE, NLM_F_REQUEST
from pyroute2.netlink.nfnetlink import NFNL_SUBSYS_NFTABLES, nfgen_msg
from pyroute2.netlink.nfnetlink import nftsocket as nft

TABLE: Final = "koordpy"

_INET: Final = 1
_BEGIN, _END = 0x10, 0x11
_CHAIN: Final = re.compile(r"classify_(\d+)_([0-9a-f]+)")
_POSTROUTING, _MANGLE = 4, -150
_ACCEPT: Final = 1
_IPV4, _IPV6, _MARK, _CLASS_ID = 7, 8, 19, 23
"""Types of data, as the program nft names them."""
_PRIORITY, _PROTOCOL, _CGROUP = 2, 15, 23
"""Keys of meta expressions."""
_ELEMENTS_PER_MESSAGE: Final = 500


async def current() -> tuple[int, str] | None:
    """Return the interface and the digest that the table was made for; None if there is no such table."""
    async with nft.AsyncNFTSocket(nfgen_family=_INET) as socket:
        names = [
            chain.get_attr("NFTA_CHAIN_NAME")
            async for chain in await socket.request_get(nfgen_msg(), nft.NFT_MSG_GETCHAIN)
            if chain.get_attr("NFTA_CHAIN_TABLE") == TABLE
        ]
    found = _CHAIN.fullmatch(names[0]) if names else None
    return (int(found[1]), found[2]) if found else None


async def replace(interface: int, digest: str, addresses: Mapping[str, int], classes: Iterable[int]) -> None:
    """Make the table anew. Raises NetlinkError, and leaves the old one.

    `addresses` maps source addresses to classes; processes may be in any of `classes`.
    """
    by_version: dict[int, list[tuple[bytes, int]]] = {4: [], 6: []}
    for text, handle in addresses.items():
        address = ipaddress.ip_address(text)
        by_version[address.version].append((address.packed, handle))
    chain = f"classify_{interface}_{digest}"
    await _commit(
        [
            _table(nft.NFT_MSG_NEWTABLE, NLM_F_CREATE),
            _table(nft.NFT_MSG_DELTABLE),
            _table(nft.NFT_MSG_NEWTABLE, NLM_F_CREATE),
            _map("ipv4", 1, _IPV4, 4),
            _map("ipv6", 2, _IPV6, 16),
            _map("sockets", 3, _MARK, 4),
            *_elements("ipv4", by_version[4]),
            *_elements("ipv6", by_version[6]),
            *_elements("sockets", [(struct.pack("=I", handle), handle) for handle in classes]),
            _base_chain(chain),
            _rule(chain, _meta_to(1, _CGROUP), _lookup("sockets", 1, 1), _set_priority(1)),
            _rule(chain, *_packets(2), _source(12, 4), _lookup("ipv4", 1, 1), _set_priority(1)),
            _rule(chain, *_packets(10), _source(8, 16), _lookup("ipv6", 1, 2), _set_priority(2)),
        ]
    )


async def remove() -> None:
    """Remove the table if there is one. Raises NetlinkError."""
    if await current() is not None:
        await _commit([_table(nft.NFT_MSG_DELTABLE)])


async def _commit(messages: Iterable[Any]) -> None:
    async with nft.AsyncNFTSocket(nfgen_family=_INET) as socket:
        async for _ in socket.nlm_request_batch([_edge(_BEGIN), *messages, _edge(_END)]):
            pass


# --- messages ------------------------------------------------------------------------------------


def _edge(type_: int) -> Any:
    message = nfgen_msg()
    message["res_id"] = NFNL_SUBSYS_NFTABLES
    message["header"]["type"] = type_
    message["header"]["flags"] = NLM_F_REQUEST
    return message


def _message(kind: Any, type_: int, attributes: list[tuple[str, Any]], flags: int = 0) -> Any:
    message = kind()
    message["attrs"] = attributes
    message["nfgen_family"] = _INET
    message["header"]["type"] = (NFNL_SUBSYS_NFTABLES << 8) | type_
    message["header"]["flags"] = NLM_F_REQUEST | NLM_F_ACK | flags
    return message


def _table(type_: int, flags: int = 0) -> Any:
    return _message(nft.nft_table_msg, type_, [("NFTA_TABLE_NAME", TABLE)], flags)


def _map(name: str, number: int, key: int, length: int) -> Any:
    attributes = [
        ("NFTA_SET_TABLE", TABLE),
        ("NFTA_SET_NAME", name),
        ("NFTA_SET_FLAGS", {"NFT_SET_MAP"}),
        ("NFTA_SET_KEY_TYPE", key),
        ("NFTA_SET_KEY_LEN", length),
        ("NFTA_SET_DATA_TYPE", _CLASS_ID),
        ("NFTA_SET_DATA_LEN", 4),
        ("NFTA_SET_ID", number),
    ]
    return _message(nft.nft_set_msg, nft.NFT_MSG_NEWSET, attributes, NLM_F_CREATE)


def _elements(name: str, pairs: list[tuple[bytes, int]]) -> Iterator[Any]:
    for start in range(0, len(pairs), _ELEMENTS_PER_MESSAGE):
        elements = [
            {
                "attrs": [
                    ("NFTA_SET_ELEM_KEY", _value(key)),
                    ("NFTA_SET_ELEM_DATA", _value(struct.pack("=I", handle))),
                ]
            }
            for key, handle in pairs[start : start + _ELEMENTS_PER_MESSAGE]
        ]
        attributes = [
            ("NFTA_SET_ELEM_LIST_TABLE", TABLE),
            ("NFTA_SET_ELEM_LIST_SET", name),
            ("NFTA_SET_ELEM_LIST_ELEMENTS", elements),
        ]
        yield _message(nft.nft_set_elem_list_msg, nft.NFT_MSG_NEWSETELEM, attributes, NLM_F_CREATE)


def _base_chain(name: str) -> Any:
    hook = {"attrs": [("NFTA_HOOK_HOOKNUM", _POSTROUTING), ("NFTA_HOOK_PRIORITY", _MANGLE)]}
    attributes = [
        ("NFTA_CHAIN_TABLE", TABLE),
        ("NFTA_CHAIN_NAME", name),
        ("NFTA_CHAIN_HOOK", hook),
        ("NFTA_CHAIN_TYPE", "filter"),
        ("NFTA_CHAIN_POLICY", _ACCEPT),
    ]
    return _message(nft.nft_chain_msg, nft.NFT_MSG_NEWCHAIN, attributes, NLM_F_CREATE)


def _rule(chain: str, *expressions: Any) -> Any:
    attributes = [
        ("NFTA_RULE_TABLE", TABLE),
        ("NFTA_RULE_CHAIN", chain),
        ("NFTA_RULE_EXPRESSIONS", list(expressions)),
    ]
    return _message(nft.nft_rule_msg, nft.NFT_MSG_NEWRULE, attributes, NLM_F_CREATE | NLM_F_APPEND)


def _expression(name: str, **attributes: Any) -> Any:
    data = [(f"NFTA_{name.upper()}_{key.upper()}", value) for key, value in attributes.items()]
    return {"attrs": [("NFTA_EXPR_NAME", name), ("NFTA_EXPR_DATA", {"attrs": data})]}


def _value(data: bytes) -> Any:
    return {"attrs": [("NFTA_DATA_VALUE", data)]}


def _meta_to(register: int, key: int) -> Any:
    return _expression("meta", dreg=register, key=key)


def _packets(protocol: int) -> tuple[Any, Any]:
    """Only packets of IPv4 (2) or IPv6 (10)."""
    return _meta_to(1, _PROTOCOL), _expression("cmp", sreg=1, op=0, data=_value(bytes([protocol])))


def _source(offset: int, length: int) -> Any:
    """Load the source address of the network header."""
    return _expression("payload", dreg=1, base=1, offset=offset, len=length)


def _lookup(name: str, key: int, data: int) -> Any:
    """Load what a map has for a key; the rule ends if it has nothing."""
    return _expression("lookup", set=name, sreg=key, dreg=data)


def _set_priority(register: int) -> Any:
    return _expression("meta", key=_PRIORITY, sreg=register)
