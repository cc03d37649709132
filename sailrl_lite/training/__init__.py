"""The policy, its supervised fine-tuning and its reinforcement learning; the only part that needs torch."""
