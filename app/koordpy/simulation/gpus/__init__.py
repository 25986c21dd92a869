"""Scenarios of pods that fill GPUs and stay, under several scoring policies: the kind `GPUFillScenario`."""
