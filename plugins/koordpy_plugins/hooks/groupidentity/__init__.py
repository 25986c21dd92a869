"""The runtime hook GroupIdentity."""
