# SPDX-License-Identifier: Apache-2.0
"""Run every test that this machine can run: `make test`. Ends with what was skipped, and why.

Tests run in several Pythons: this one, and each simulator's own. Words on the command line go to
pytest, e.g. `make test ARGS="-k transport"`; `--slow` is ours: with it simulators also get the
tests that take minutes each, such as whole episodes compared with the stock loop.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import IO

from msgspec import Struct

from rpent_box.cli.mini_pythons import PLATFORM as TAUGHT_ON
from rpent_box.cli.mini_pythons import simulator_python
from rpent_box.errors import LaunchError
from rpent_box.launch.build import build_images
from rpent_box.launch.engine_socket import check_engine, engine_socket
from rpent_box.launch.environments import build_environment, find_uv
from rpent_box.launch.lent_wheels import lend_wheels
from rpent_box.launch.recipe import Target, find_recipe, recipe_names

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = (Target("backend", "mini-wam"), Target("platform", "libero"))
"""What most tests with containers or environments play with. The others are built by their own."""
ASKED_OF_ALL = ("test_platform_conformance.py", "test_platform_process.py", "test_pairs.py")
"""What tests/conformance asks of every platform, in its own Python."""
ALSO_THERE = {"libero": ("tests/unit/sim",)}
"""Tests of rpent_box itself that are worth another numpy and Python."""
SIDE_BY_SIDE = 2
"""Simulators' Pythons that are tested at once: each draws and computes on one processor mostly."""
TEST_PACKAGES = ("hypothesis", "httpx", "msgpack", "pytest", "pytest-timeout", "websockets")
TIMEOUT_S = 3600
SLOW = "--slow"
NO_TESTS = 5
"""pytest's exit code when a selection leaves none."""


class Part(Struct, frozen=True, kw_only=True):
    """One run of pytest."""

    title: str
    python: str
    paths: tuple[str, ...]
    marks: str = ""


class Outcome(Struct, frozen=True, kw_only=True):
    """What came of one part."""

    part: Part
    code: int
    seconds: float
    tests: int
    failed: int
    skipped: Counter[str]
    """Reason → tests."""


def main(words: list[str]) -> int:
    started = time.monotonic()
    without, marks = _missing_machines()
    here = Part(title="this machine", python=sys.executable, paths=("tests",), marks=marks)
    # All environments first: tests on this machine start programs in them.
    slow = SLOW in words
    words = [word for word in words if word != SLOW]
    simulators = _simulator_parts(without, slow=slow)
    # Alone, since some of its tests have deadlines.
    outcomes = [_run(here, words)]
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        outcomes += pool.map(partial(_run_held, words=words), simulators)
    _report(outcomes, without, time.monotonic() - started)
    return 1 if any(outcome.code not in (0, NO_TESTS) for outcome in outcomes) else 0


def _missing_machines() -> tuple[list[str], str]:
    """Return what is not here in words, and pytest's selection without it. Builds images."""
    without, marks = [], []
    try:
        check_engine(engine_socket())
        _lend_wheels(without)
        build_images(PROGRAMS, say=_say, environ=os.environ)
    except LaunchError as error:
        without.append(f"docker tests: {error}")
        marks.append("not docker")
    if shutil.which("nvidia-smi") is None:
        without.append("gpu tests: there is no GPU (no nvidia-smi)")
        marks.append("not gpu")
    return without, " and ".join(marks)


def _lend_wheels(without: list[str]) -> None:
    """Give the CPU variants, which their own tests build, the wheels that pip could find here."""
    variants = [lock.parent.name for lock in ROOT.glob("images/*/requirements-cpu.lock")]
    for name in sorted(variants):
        try:
            lend_wheels([find_recipe("backend", name, "cpu")], os.environ)
        except LaunchError as error:
            without.append(f"tests in the CPU image of {name}: {error}")


def _simulator_parts(without: list[str], *, slow: bool) -> list[Part]:
    """Return the tests in each simulator's Python; notes in `without` those it cannot have here."""
    parts = []
    if not slow:
        without.append(f'slow tests in the simulators\' Pythons: make test ARGS="{SLOW}"')
    try:
        for target in PROGRAMS:
            build_environment(*target, say=_say, environ=os.environ)
    except LaunchError as error:
        without.append(f"tests that start processes of {target.name}: {error}")
    for name in recipe_names(ROOT, "platform"):
        try:
            parts.append(_simulator_part(name, marks="not gpu" if slow else "not gpu and not slow"))
        except LaunchError as error:
            without.append(f"tests in {name}'s Python: {error}")
    return parts


def _simulator_part(name: str, *, marks: str) -> Part:
    """Make the environment that the process launcher uses; tests run inside it."""
    if name == TAUGHT_ON:
        # With what teaching imports as well, so that its tests can.
        python = simulator_python(None, build=True, say=_say, environ=os.environ)
    else:
        python = str(build_environment("platform", name, say=_say, environ=os.environ))
    subprocess.run(
        [find_uv(), "pip", "install", "--quiet", f"--python={python}", *TEST_PACKAGES],
        check=True,
        stdin=subprocess.DEVNULL,
        timeout=TIMEOUT_S,
    )
    return Part(
        title=f"{name}'s Python", python=python, paths=paths_in_simulator(name), marks=marks
    )


def paths_in_simulator(name: str) -> tuple[str, ...]:
    """Return the tests that are run in the Python of platforms/<name>, relative to the root."""
    return (
        f"platforms/{name}/tests",
        *(f"tests/conformance/{file}" for file in ASKED_OF_ALL),
        *ALSO_THERE.get(name, ()),
    )


def _run_held(part: Part, words: list[str]) -> Outcome:
    """Run one of several parts; what it prints comes in one piece at its end."""
    with tempfile.TemporaryFile("w+") as held:
        outcome = _run(part, words, held)
        held.seek(0)
        _say(f"\n=== printed by the tests in {part.title}\n{held.read()}")
    return outcome


def _run(part: Part, words: list[str], output: IO[str] | None = None) -> Outcome:
    _say(f"\n=== tests in {part.title}: {' '.join(part.paths)}")
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [part.python, "-m", "pytest", "-p", "no:cacheprovider", f"--junitxml={report}"]
        command += [f"-m={part.marks}"] if part.marks else []
        done = subprocess.run(
            [*command, *words, *part.paths],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT if output else None,
            cwd=ROOT,
            check=False,
            timeout=TIMEOUT_S,
            env={"TESTCONTAINERS_RYUK_DISABLED": "true", **os.environ},
        )
        return _outcome(part, done.returncode, time.monotonic() - started, report)


def _outcome(part: Part, code: int, seconds: float, report: Path) -> Outcome:
    if not report.is_file():
        return Outcome(
            part=part, code=code or 1, seconds=seconds, tests=0, failed=0, skipped=Counter()
        )
    cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    reasons = Counter(_reason(skip) for case in cases for skip in case.findall("skipped"))
    bad = [
        case for case in cases if case.find("failure") is not None or case.find("error") is not None
    ]
    return Outcome(
        part=part, code=code, seconds=seconds, tests=len(cases), failed=len(bad), skipped=reasons
    )


def _reason(skip: ElementTree.Element) -> str:
    message = skip.get("message", "no reason given")
    if message != "collection skipped":
        return message
    # A whole file: path, line and reason, printed as a tuple.
    printed = str(ast.literal_eval(skip.text or "('', 0, 'no reason given')")[2])
    return printed.removeprefix("Skipped: ")


def _report(outcomes: list[Outcome], without: list[str], seconds: float) -> None:
    _say(f"\n=== all tests: {seconds:.0f} s")
    for outcome in outcomes:
        skipped = outcome.skipped.total()
        passed = outcome.tests - outcome.failed - skipped
        _say(
            f"{outcome.part.title}: {passed} passed, {outcome.failed} failed, {skipped} skipped "
            f"in {outcome.seconds:.0f} s (exit code {outcome.code})"
        )
        for reason, count in sorted(outcome.skipped.items()):
            _say(f"  skipped {count}: {reason}")
    for reason in without:
        _say("not run: " + reason.replace("\n", "\n         "))


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
