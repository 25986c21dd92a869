"""Refuse pods of users with Koordinator's annotation of reserve pods."""
