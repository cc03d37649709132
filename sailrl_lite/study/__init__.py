"""Measuring policies: evaluation with intervals, the main job, and the three-seed result."""
