"""What quotas are: their amounts, what an ElasticQuota says, and which pods belong to it. Pure."""
