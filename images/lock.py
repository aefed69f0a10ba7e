# SPDX-License-Identifier: Apache-2.0
"""Resolve the locked requirements anew: `make lock`, or some of them: `make lock ARGS=fast-wam`.

    images/lock.py [NAME...] [--OPTION...]

Names are images, platforms, or `tools`; none means all. Options go to `uv pip compile`:
`--upgrade` takes newer releases, else what a lock holds already is kept where it fits.

A lock names every package with its version and the hashes of its files, and no index. An image's
`requirements.in` is resolved for the one Python and the one processor that its model runs on, and
so is `requirements-cpu.in`, which may also take wheels from images/wheels. A line in such a file
that begins with `# lock:` gives it options of its own. A platform's pins are the extra `simulator`
in its `pyproject.toml`, whose `override-dependencies` under `[tool.uv]` are obeyed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rpent_box.errors import UnknownName
from rpent_box.launch.environments import LOCKED_PYTHON, find_uv
from rpent_box.plugins import find_backend, find_platform

ROOT = Path(__file__).resolve().parent.parent
CORE = f"rpent-box @ {ROOT.as_uri()}"
TOOLS = ("hatchling", "pip", "uv")
LINUX = "--python-platform=x86_64-manylinux_2_28"
OPTIONS = "# lock:"
TIMEOUT_S = 1800


class Lock(NamedTuple):
    """One file to write."""

    name: str
    path: Path
    wanted: tuple[str, ...]
    """Requirements."""
    options: tuple[str, ...]
    """Of `uv pip compile`."""


def main() -> int:
    names = [word for word in sys.argv[1:] if not word.startswith("-")]
    options = tuple(word for word in sys.argv[1:] if word.startswith("-"))
    unknown = sorted(set(names) - set(known_names()))
    if unknown:
        known = ", ".join(known_names())
        sys.stderr.write(f"error: no lock of {', '.join(unknown)}; there are: {known}\n")
        return 2
    locks = [lock for name in names or known_names() for lock in locks_of(name)]
    return 0 if all([compile_lock(lock, options) for lock in locks]) else 1


def known_names() -> list[str]:
    """Return the images and platforms that have a lock, and `tools`."""
    dockerfiles, projects = (
        ROOT.glob("images/*/Dockerfile"),
        ROOT.glob("platforms/*/pyproject.toml"),
    )
    return [
        "tools",
        *sorted(file.parent.name for file in dockerfiles),
        *sorted(file.parent.name for file in projects),
    ]


def locks_of(name: str) -> Iterator[Lock]:
    """Return the locks of one image or platform: one for each of an image's variants."""
    if name == "tools":
        lock = ROOT / "images/base/tools.lock"
        yield Lock(name, lock, TOOLS, ("--universal", "--python-version=3.10"))
    elif (ROOT / "images" / name / "Dockerfile").is_file():
        yield from _locks_of_image(ROOT / "images" / name)
    else:
        yield _lock_of_platform(ROOT / "platforms" / name)


def _locks_of_image(folder: Path) -> Iterator[Lock]:
    files = sorted(folder.glob("requirements*.in"))
    if not files:
        # A worker that may run in any Python that fits, hence one lock for all.
        wanted = (f"rpent-box[{folder.name}] @ {ROOT.as_uri()}",)
        options = ("--universal", "--python-version=3.10")
        yield Lock(folder.name, folder / "requirements.lock", wanted, options)
    for file in files:
        lines = file.read_text().splitlines()
        own = [word for line in lines if line.startswith(OPTIONS) for word in _words(line)]
        usual = (f"--python-version={_python_of(folder.name)}", LINUX, *_lent(file))
        options = (*(word for word in usual if not _names_again(word, own)), *own)
        yield Lock(folder.name, file.with_suffix(".lock"), (CORE, f"-r {file}"), options)


def _lock_of_platform(folder: Path) -> Lock:
    name = folder.name
    return Lock(
        name,
        folder / "requirements.lock",
        (CORE, f"rpent-box-{name}[simulator] @ {folder.as_uri()}"),
        (
            f"--python-version={find_platform(name).python}",
            LINUX,
            f"--no-emit-package=rpent-box-{name}",
            # Its pyproject.toml may override what the simulator's packages ask for.
            f"--project={folder}",
        ),
    )


def _names_again(option: str, own: list[str]) -> bool:
    """Say whether a file's own options hold this one: uv takes each only once."""
    name = option.partition("=")[0]
    return any(word.partition("=")[0] == name for word in own)


def _words(line: str) -> list[str]:
    return line.removeprefix(OPTIONS).split()


def _lent(file: Path) -> tuple[str, ...]:
    """Let variants take wheels that no index has; the default image is made from the index."""
    return () if file.stem == "requirements" else (f"--find-links={ROOT / 'images/wheels'}",)


def _python_of(name: str) -> str:
    try:
        return find_backend(name).python or LOCKED_PYTHON
    except UnknownName:
        # A service that a backend speaks to; `# lock: --python-version=…` may say otherwise.
        return LOCKED_PYTHON


def compile_lock(lock: Lock, options: tuple[str, ...]) -> bool:
    """Write `lock`; say whether there is a solution. What it holds already is kept if it fits."""
    sys.stderr.write(f"resolving {lock.path.relative_to(ROOT)}\n")
    done = subprocess.run(
        [
            find_uv(),
            "pip",
            "compile",
            "-",
            "--quiet",
            "--generate-hashes",
            "--no-emit-package=rpent-box",
            "--custom-compile-command=make lock",
            f"--output-file={lock.path}",
            *lock.options,
            *options,
        ],
        input="\n".join(lock.wanted),
        text=True,
        check=False,
        timeout=TIMEOUT_S,
        env=dict(os.environ),
        cwd=ROOT,
    )
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
