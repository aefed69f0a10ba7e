# SPDX-License-Identifier: Apache-2.0
"""Build images with BuildKit, on the machine as it is: its engine, registry or none, mirrors.

The Docker SDK has only the classic builder, so the docker command does it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from rpent_box.errors import LaunchError
from rpent_box.launch.base_image import choose_base
from rpent_box.launch.commands import Command, run_all
from rpent_box.launch.host_settings import PROXIES, certificate_bundle, read_indexes
from rpent_box.launch.images import image_name
from rpent_box.launch.recipe import Kind, Recipe, find_recipe
from rpent_box.version import __version__

BUILD_TIMEOUT_S = 3600.0
ASK_S = 30.0
PRUNE_REPLACED = ("image", "prune", "--force", "--filter", "label=rpent-box.inputs")
LAST_CLI_WITH_BUILDKIT = 22
"""Newer clients leave BuildKit to the buildx plugin, which may be missing."""


class Builder(Struct, frozen=True):
    """A docker command that can build with BuildKit."""

    docker: str
    words: tuple[str, ...]
    """What a build begins with."""
    environment: dict[str, str]


def build_images(
    wanted: Sequence[tuple[Kind, str]],
    *,
    say: Callable[[str], None],
    environ: Mapping[str, str],
    base: str | None = None,
) -> list[str]:
    """Build the images of `wanted` side by side, and return their names.

    `environ` is the caller's environment: the engine, proxies and package indexes are read from
    it. `base` overrides the base image. Layers that have not changed are reused. Raises
    `LaunchError` with the log's last lines.
    """
    recipes = [find_recipe(kind, name) for kind, name in wanted]
    if not recipes:
        return []
    builder = find_builder(environ)
    chosen = choose_base(builder.docker, recipes[0].checkout, asked=base, environ=environ, say=say)
    with _lent(environ, recipes[0].checkout, chosen) as secrets:
        commands = [_command(recipe, builder, chosen, secrets) for recipe in recipes]
        run_all(commands, timeout_s=BUILD_TIMEOUT_S, say=say)
    # What the new images replace: 2.5 GB each, without a name. One that is in use stays.
    _answer(builder.docker, *PRUNE_REPLACED, environ=environ)
    return [image_name(recipe.kind, recipe.name) for recipe in recipes]


def find_builder(environ: Mapping[str, str]) -> Builder:
    """Return a docker command that builds with BuildKit. Raises `LaunchError`."""
    candidates = _docker_commands(environ)
    environment = {**environ, "DOCKER_BUILDKIT": "1"}
    for docker in candidates:
        if _answer(docker, "buildx", "version", environ=environ) is not None:
            return Builder(docker, (docker, "buildx", "build", "--load"), environment)
    for docker in candidates:
        version = _answer(docker, "--version", environ=environ) or ""
        if 18 < _major(version) <= LAST_CLI_WITH_BUILDKIT:
            return Builder(docker, (docker, "build"), environment)
    raise LaunchError(
        "no docker command here can build with BuildKit: "
        f"{', '.join(candidates) or 'there is no docker command'}",
        hint="Install the buildx plugin: sudo apt-get install docker-buildx "
        "(docker-buildx-plugin from Docker's own repository)",
    )


def _command(recipe: Recipe, builder: Builder, base: str, secrets: Mapping[str, Path]) -> Command:
    image = image_name(recipe.kind, recipe.name)
    arguments = {
        "BASE": base,
        "PLATFORM": recipe.name if recipe.kind == "platform" else "",
        "VERSION": __version__,
        "REVISION": revision(recipe.checkout),
        "INPUTS": recipe.inputs(),
        **{name: builder.environment[name] for name in PROXIES if name in builder.environment},
    }
    words = [*builder.words, "--progress=plain", f"--file={recipe.dockerfile}", f"--tag={image}"]
    words += [f"--build-arg={key}={value}" for key, value in arguments.items() if value]
    words += [f"--secret=id={key},src={path}" for key, path in secrets.items()]
    return Command(
        what=f"building {image}",
        words=(*words, "."),
        log=recipe.checkout / "build" / "logs" / f"{recipe.kind}-{recipe.name}.log",
        environment=builder.environment,
        cwd=recipe.checkout,
    )


@contextmanager
def _lent(environ: Mapping[str, str], checkout: Path, base: str) -> Iterator[dict[str, Path]]:
    """Write what a build may borrow from this machine into files that only we can read."""
    indexes = read_indexes(environ).remote()
    with tempfile.TemporaryDirectory(prefix="rpent-box-build-") as folder:
        secrets = {"pip.conf": indexes.pip_conf(), "uv.toml": indexes.uv_toml()}
        if sources := _apt_sources(checkout, base):
            secrets["apt-sources"] = sources
        files = {}
        for name, text in secrets.items():
            files[name] = Path(folder) / name
            files[name].write_text(text)
        if bundle := certificate_bundle(environ):
            files["ca-bundle"] = bundle
        yield files


def _apt_sources(checkout: Path, base: str) -> str:
    """Return this machine's package sources if `base` is of the same suite; else nothing."""
    if "bookworm" not in base:
        return ""
    script = checkout / "images" / "base" / "make_base.py"
    found = subprocess.run(
        [sys.executable, str(script), "--suite=bookworm", "--print-sources"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=ASK_S,
    )
    return found.stdout if found.returncode == 0 else ""


def revision(checkout: Path) -> str:
    """Return the commit that is checked out, marked when files differ; empty outside git."""
    head = _git(checkout, "rev-parse", "HEAD")
    if not head:
        return ""
    return f"{head}-modified" if _git(checkout, "status", "--porcelain") else head


def _git(checkout: Path, *words: str) -> str:
    try:
        found = subprocess.run(
            ["git", "-C", str(checkout), *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=ASK_S,
        )
    except FileNotFoundError:
        return ""
    return found.stdout.strip() if found.returncode == 0 else ""


def _docker_commands(environ: Mapping[str, str]) -> list[str]:
    folders = [*environ.get("PATH", "").split(":"), "/usr/bin", "/usr/local/bin"]
    found = [shutil.which("docker", path=folder) for folder in folders if folder]
    return list(dict.fromkeys(path for path in found if path))


def _answer(docker: str, *words: str, environ: Mapping[str, str]) -> str | None:
    found = subprocess.run(
        [docker, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env=dict(environ),
        timeout=ASK_S,
    )
    return found.stdout if found.returncode == 0 else None


def _major(version: str) -> int:
    """Read `Docker version 20.10.24+dfsg1, build …`; 0 when it says something else."""
    for word in version.split():
        if word[0].isdigit():
            return int(word.split(".")[0])
    return 0
