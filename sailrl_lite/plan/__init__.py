"""What a run needs before it is started: memory, tokens, operations, hours, judge calls, disk."""
