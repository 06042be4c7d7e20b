"""Checks of an account and Region, before and after a pipeline is deployed into it."""
