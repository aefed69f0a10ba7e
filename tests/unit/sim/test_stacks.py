# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys

PROGRAM = """
import ctypes, time
from rpent_box.contracts.control_messages import Progress
from rpent_box.sim.stacks import stacks_when_silent

def wait_in_here(seconds):
    {wait}

with stacks_when_silent({stall}, {prediction}, lambda progress: None) as tell:
    tell(Progress(phase="resetting"))
    tell(Progress(phase={phase!r}))
    wait_in_here(1.2)
time.sleep(0.5)
print("the end")
"""
IN_PYTHON = "time.sleep(seconds)"
WITH_THE_LOCK = "ctypes.PyDLL(None).usleep(ctypes.c_uint(int(seconds * 1e6)))"


def written(*, stall, phase="acting", prediction=0.0, wait=IN_PYTHON):
    program = PROGRAM.format(stall=stall, phase=phase, prediction=prediction, wait=wait)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "the end\n"
    return done.stderr


def test_silence_leaves_the_stacks_before_the_host_kills():
    stacks = written(stall=1.0)
    assert "Timeout (0:00:00.9" in stacks
    assert "in wait_in_here" in stacks


def test_native_code_that_keeps_the_interpreters_lock_is_seen_too():
    assert "in wait_in_here" in written(stall=1.0, wait=WITH_THE_LOCK)


def test_while_the_model_is_awaited_its_time_is_allowed():
    assert written(stall=1.0, phase="predicting", prediction=60.0) == ""
    assert "in wait_in_here" in written(stall=1.0, phase="acting", prediction=60.0)


def test_nothing_is_written_by_one_that_goes_on_or_was_not_asked():
    assert written(stall=60.0) == ""
    assert written(stall=None) == ""
    assert written(stall=1e15) == ""
