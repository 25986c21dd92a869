"""The runtime hook RDMADeviceInject."""
