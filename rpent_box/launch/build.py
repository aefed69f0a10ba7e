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
from rpent_box.launch.base_image import choose_base, default_base
from rpent_box.launch.commands import Command, run_all
from rpent_box.launch.host_settings import PROXIES, certificate_bundle, read_indexes
from rpent_box.launch.images import image_name
from rpent_box.launch.lent_wheels import lend_wheels
from rpent_box.launch.recipe import Recipe, Target, find_recipe
from rpent_box.version import __version__

BUILD_TIMEOUT_S = 3600.0
SIDE_BY_SIDE = 2
"""One pair's images, and no more: those of large models unpack many gigabytes each."""
ASK_S = 30.0
APT_SOURCES = "apt-sources"
APT_SUITE = "bookworm"
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
    wanted: Sequence[Target],
    *,
    say: Callable[[str], None],
    environ: Mapping[str, str],
    base: str | None = None,
    golden: bool = True,
) -> list[str]:
    """Build the images of `wanted`, a few side by side, and return their names.

    `environ` is the caller's environment: the engine, proxies and package indexes are read from
    it. `base` overrides the base of each. Without `golden` simulators are not compared with what
    is recorded of them, and a label of their images says so. Layers that have not changed are
    reused. Raises `LaunchError` with the log's last lines, or, once the others are built, for those
    whose base cannot be had.
    """
    recipes = [find_recipe(kind, name, variant) for kind, name, variant in wanted]
    if not recipes:
        return []
    builder = find_builder(environ)
    lend_wheels(recipes, environ)
    bases, refused = _choose_bases(recipes, builder, base, environ, say)
    with _lent(environ, recipes[0].checkout) as secrets:
        commands = [
            _command(recipe, builder, chosen, secrets, golden=golden)
            for recipe, chosen in bases.items()
        ]
        for first in range(0, len(commands), SIDE_BY_SIDE):
            few = commands[first : first + SIDE_BY_SIDE]
            run_all(few, timeout_s=BUILD_TIMEOUT_S, say=say)
    # What the new images replace: 2.5 GB each, without a name. One that is in use stays.
    _answer(builder.docker, *PRUNE_REPLACED, environ=environ)
    if refused:
        raise _not_built(refused)
    return [image_name(recipe.kind, recipe.name, recipe.variant) for recipe in recipes]


def _choose_bases(
    recipes: Sequence[Recipe],
    builder: Builder,
    asked: str | None,
    environ: Mapping[str, str],
    say: Callable[[str], None],
) -> tuple[dict[Recipe, str], dict[Recipe, LaunchError]]:
    """Return what to build each recipe on, and why the others cannot be built here."""
    found: dict[str, str | LaunchError] = {}
    bases: dict[Recipe, str] = {}
    refused: dict[Recipe, LaunchError] = {}
    for recipe in recipes:
        default = default_base(recipe.dockerfile)
        if default not in found:
            found[default] = asked or _base_or_error(recipe, default, builder, environ, say)
        one = found[default]
        if isinstance(one, LaunchError):
            refused[recipe] = one
        else:
            bases[recipe] = one
    return bases, refused


def _base_or_error(
    recipe: Recipe,
    default: str,
    builder: Builder,
    environ: Mapping[str, str],
    say: Callable[[str], None],
) -> str | LaunchError:
    try:
        return choose_base(builder.docker, recipe.checkout, default, environ=environ, say=say)
    except LaunchError as error:
        return error


def _not_built(refused: Mapping[Recipe, LaunchError]) -> LaunchError:
    """Return one error for all; the first of several hints will do."""
    first = next(iter(refused.values()))
    if len(refused) == 1:
        return first
    whys = [f"{recipe.name}: {error.message}" for recipe, error in refused.items()]
    return LaunchError("not built:\n" + "\n".join(whys), hint=first.hint, detail=first.detail)


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


def _command(
    recipe: Recipe, builder: Builder, base: str, secrets: Mapping[str, Path], *, golden: bool
) -> Command:
    image = image_name(recipe.kind, recipe.name, recipe.variant)
    arguments = {
        "BASE": base,
        "VARIANT": recipe.variant,
        "PLATFORM": recipe.name if recipe.kind == "platform" else "",
        "GOLDEN": "" if golden or recipe.kind != "platform" else "skipped",
        "VERSION": __version__,
        "REVISION": revision(recipe.checkout),
        "INPUTS": recipe.inputs(),
        **{name: builder.environment[name] for name in PROXIES if name in builder.environment},
    }
    words = [*builder.words, "--progress=plain", f"--file={recipe.dockerfile}", f"--tag={image}"]
    words += [f"--build-arg={key}={value}" for key, value in arguments.items() if value]
    words += [
        f"--secret=id={key},src={path}"
        for key, path in secrets.items()
        # A base of another suite has sources of its own.
        if key != APT_SOURCES or APT_SUITE in base
    ]
    return Command(
        what=f"building {image}",
        words=(*words, "."),
        log=recipe.checkout / "build" / "logs" / f"{_file_name(recipe)}.log",
        environment=builder.environment,
        cwd=recipe.checkout,
    )


def _file_name(recipe: Recipe) -> str:
    return f"{recipe.kind}-{recipe.name}{recipe.variant and f'-{recipe.variant}'}"


@contextmanager
def _lent(environ: Mapping[str, str], checkout: Path) -> Iterator[dict[str, Path]]:
    """Write what a build may borrow from this machine into files that only we can read."""
    indexes = read_indexes(environ).remote()
    with tempfile.TemporaryDirectory(prefix="rpent-box-build-") as folder:
        secrets = {"pip.conf": indexes.pip_conf(), "uv.toml": indexes.uv_toml()}
        if sources := _apt_sources(checkout):
            secrets[APT_SOURCES] = sources
        files = {}
        for name, text in secrets.items():
            files[name] = Path(folder) / name
            files[name].write_text(text)
        if bundle := certificate_bundle(environ):
            files["ca-bundle"] = bundle
        yield files


def _apt_sources(checkout: Path) -> str:
    """Return this machine's package sources for `APT_SUITE`; empty where it has none."""
    script = checkout / "images" / "base" / "make_base.py"
    found = subprocess.run(
        [sys.executable, str(script), f"--suite={APT_SUITE}", "--print-sources"],
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
    """Return what a docker command says; None where it fails, or takes longer than `ASK_S`."""
    try:
        found = subprocess.run(
            [docker, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            env=dict(environ),
            timeout=ASK_S,
        )
    except subprocess.TimeoutExpired:
        # Removing what was replaced may take an engine longer than what was built is worth.
        return None
    return found.stdout if found.returncode == 0 else None


def _major(version: str) -> int:
    """Read `Docker version 20.10.24+dfsg1, build …`; 0 when it says something else."""
    for word in version.split():
        if word[0].isdigit():
            return int(word.split(".")[0])
    return 0
