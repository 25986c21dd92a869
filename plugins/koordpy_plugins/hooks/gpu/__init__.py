"""The runtime hook GPUEnvInject."""
