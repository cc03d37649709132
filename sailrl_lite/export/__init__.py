"""Folders for engines that are not this package: the same policy, data and rewards in their forms."""
