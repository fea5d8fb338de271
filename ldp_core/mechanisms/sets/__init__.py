"""Mechanisms for sets: of a person who may hold several values, the share of people who hold each."""
