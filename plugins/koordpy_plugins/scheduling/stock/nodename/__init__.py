"""NodeName: a pod that names its node fits nowhere else."""
