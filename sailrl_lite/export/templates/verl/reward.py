"""The reward of this run; beside it go rewards.csv, judge.json and, where the run must end, stopped.txt."""

from pathlib import Path

from sailrl_lite.rewards.verl import for_folder

compute_score = for_folder(Path(__file__).resolve().parent)
