"""DeviceEnvironment: environment variables with the devices that are allocated to a pod."""
