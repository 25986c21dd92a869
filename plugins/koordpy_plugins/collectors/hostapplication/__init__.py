"""The collector of the usage of host applications."""
