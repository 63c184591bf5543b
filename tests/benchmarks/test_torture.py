"""The short form of `make torture`: a run with workers is killed, resumed and compared bit for bit."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "torture.py"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for orphans in /proc")
def test_a_run_that_is_killed_and_resumed_is_the_undisturbed_run():
    command = [sys.executable, str(SCRIPT), "--kills", "2", "--evaluations", "300", "--seconds", "0.01"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["kills"] == 2
    assert report["differences"] == report["commits lost"] == report["orphans"] == 0
    assert report["folders left"] == []
