"""The collector of NVIDIA GPUs."""
