"""What is known about a pod in an attempt: what it asks for, and what preemption would free."""
