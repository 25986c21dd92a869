"""DeviceShare: GPUs, RDMA cards and FPGAs, whole or in parts, as Device objects list them."""
