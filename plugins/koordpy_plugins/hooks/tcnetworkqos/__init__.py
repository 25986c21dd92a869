"""The runtime hook TCNetworkQoS."""
