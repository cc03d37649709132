"""Judges of reasoning: exact, LLM, noisy and learned, behind one small protocol."""
