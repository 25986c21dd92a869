"""Explanations of quotas: their tree, who borrows from whom, and why a quota refuses a pod."""
