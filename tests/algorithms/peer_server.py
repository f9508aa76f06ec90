"""Run scripts one after the other in one process, for each line of the standard input: a list in JSON with the script
and its arguments. A line is printed after each."""

import contextlib
import json
import runpy
import sys

import torch

shuffle = torch.randperm
for line in sys.stdin:
    sys.argv = json.loads(line)
    torch.randperm = shuffle  # which a script may replace
    with contextlib.redirect_stdout(sys.stderr):
        runpy.run_path(sys.argv[0], run_name="__main__")
    print("done", flush=True)
