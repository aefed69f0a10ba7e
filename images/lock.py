# SPDX-License-Identifier: Apache-2.0
"""Resolve the locked requirements anew: `make lock`. Add --upgrade to take newer releases.

A lock names every package with its version and the hashes of all its files, for every processor
that it is published for, and no index.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from rpent_box.launch.environments import find_uv
from rpent_box.plugins import find_platform

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ("hatchling", "pip", "uv")
LINUX = "x86_64-manylinux_2_28"
TIMEOUT_S = 600


def main() -> int:
    compile_lock(ROOT / "images/base/tools.lock", TOOLS, "--universal", "--python-version=3.10")
    for dockerfile in sorted(ROOT.glob("images/*/Dockerfile")):
        name = dockerfile.parent.name
        # A worker may run in any Python that fits, hence one lock for all.
        compile_lock(
            dockerfile.with_name("requirements.lock"),
            (f"rpent-box[{name}] @ {ROOT.as_uri()}",),
            "--universal",
            "--python-version=3.10",
        )
    for project in sorted(ROOT.glob("platforms/*/pyproject.toml")):
        name = project.parent.name
        compile_lock(
            project.with_name("requirements.lock"),
            (
                f"rpent-box @ {ROOT.as_uri()}",
                f"rpent-box-{name}[simulator] @ {project.parent.as_uri()}",
            ),
            f"--python-version={find_platform(name).python}",
            f"--python-platform={LINUX}",
            f"--no-emit-package=rpent-box-{name}",
        )
    return 0


def compile_lock(lock: Path, wanted: tuple[str, ...], *options: str) -> None:
    """Write `lock` for the requirements `wanted`; what it holds already is kept if it fits."""
    sys.stderr.write(f"resolving {lock.relative_to(ROOT)}\n")
    subprocess.run(
        [
            find_uv(),
            "pip",
            "compile",
            "-",
            "--quiet",
            "--generate-hashes",
            "--no-emit-package=rpent-box",
            "--custom-compile-command=make lock",
            f"--output-file={lock}",
            *options,
            *sys.argv[1:],
        ],
        input="\n".join(wanted),
        text=True,
        check=True,
        timeout=TIMEOUT_S,
        env=dict(os.environ),
        cwd=ROOT,
    )


if __name__ == "__main__":
    sys.exit(main())
