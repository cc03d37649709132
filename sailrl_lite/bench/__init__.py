"""Timings of the building blocks on this machine."""
