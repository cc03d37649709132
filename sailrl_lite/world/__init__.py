"""The micro-world: picture questions with a known truth, a teacher that errs, and an exact verifier."""
