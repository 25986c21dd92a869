"""Servers that tests script byte by byte: real sockets on loopback, wrong on purpose."""
