"""Measures the detection of procedure steps on hand-labelled pages.

    python -m tests.quality.steps FOLDER

FOLDER is a corpus in BEIR form that has the pages of `pages.jsonl`. Of each step that file has the position of its first
line and of the first line of each of its commands, as character offsets with a hash, and none of the text. Optional steps
count neither as missed nor as wrong. Pages at even positions of the file were looked at while rules changed, those at odd
positions were not."""
