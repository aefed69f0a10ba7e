# SPDX-License-Identifier: Apache-2.0
"""Python environments for the process launcher, made from the same locks as the images.

An environment is a folder whose name holds a digest of its lock and Python version, so another
lock gives another folder. It is ready once its marker is written; a build that was interrupted
goes on where it stopped, and of two builders one waits for the other.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from rpent_box.errors import EnvironmentMissing, LaunchError, UnknownName
from rpent_box.launch.commands import Command, run_all
from rpent_box.launch.host_settings import certificate_bundle, read_indexes
from rpent_box.launch.recipe import (
    Kind,
    Recipe,
    Variant,
    build_command,
    find_checkout,
    find_recipe,
)
from rpent_box.launch.system_packages import install_system_packages
from rpent_box.plugins import find_backend, find_platform

MARKER = ".rpent-box-ready"
EXTRAS_MARKER = ".rpent-box-extras"
"""Says what was added to what is locked."""
BUILD_TIMEOUT_S = 3600.0
LOCK_POLL_S = 0.5
LOCKED_PYTHON = "3.11"
"""What a lock for a single Python is resolved for, where its backend names none."""


def find_environment(kind: Kind, name: str, variant: Variant = "") -> Path | None:
    """Return the interpreter of the environment of `name`, or None when it is not built."""
    if find_checkout() is None:
        return None
    path = environment_path(kind, name, variant)
    return interpreter(path) if _is_ready(path, find_recipe(kind, name, variant)) else None


def require_environment(kind: Kind, name: str, variant: Variant = "") -> Path:
    """Return the interpreter of the environment of `name`. Raises `EnvironmentMissing`."""
    python = find_environment(kind, name, variant)
    if python is None:
        raise EnvironmentMissing(
            f"the Python environment of {name}{variant and f' ({variant})'} is not built",
            hint=f"Build it: {build_command(name, variant)} --launcher process",
        )
    return python


def environment_path(kind: Kind, name: str, variant: Variant = "") -> Path:
    """Return the folder of the environment of `name`, built or not. Raises `LaunchError`."""
    recipe = find_recipe(kind, name, variant)
    digest = hashlib.sha256(recipe.lock.read_bytes() + python_version(recipe).encode())
    if recipe.sources:
        digest.update(recipe.sources_lock.read_bytes())
    folder = f"{name}{variant and f'-{variant}'}-{digest.hexdigest()[:12]}"
    return environments_root(recipe.checkout) / folder


def environments_root(checkout: Path) -> Path:
    """Return where environments are kept: in the checkout, or at home if it may not be written."""
    if os.access(checkout, os.W_OK):
        return checkout / ".venvs"
    return Path.home() / ".local" / "share" / "rpent-box" / "environments"


def interpreter(environment: Path) -> Path:
    """Return the Python of `environment`."""
    return environment / "bin" / "python"


def python_version(recipe: Recipe) -> str:
    """Return the version that the environment needs: the simulator's or model's own, if any."""
    if recipe.kind == "platform":
        return find_platform(recipe.name).python
    return _declared_python(recipe.name) or (
        LOCKED_PYTHON
        if recipe.is_for_one_python
        else f"{sys.version_info.major}.{sys.version_info.minor}"
    )


def _declared_python(name: str) -> str:
    try:
        return find_backend(name).python
    except UnknownName:
        # A service has no backend of its own.
        return ""


def build_environment(
    kind: Kind,
    name: str,
    variant: Variant = "",
    *,
    say: Callable[[str], None],
    environ: Mapping[str, str],
) -> Path:
    """Build the environment of `name` where needed, and return its interpreter.

    `environ` is the caller's environment: proxies and package indexes are read from it. Raises
    `EnvironmentMissing` with the one command to type where we may not, else `LaunchError`.
    """
    recipe = find_recipe(kind, name, variant)
    path = environment_path(kind, name, variant)
    log = path.with_suffix(".log")
    path.parent.mkdir(parents=True, exist_ok=True)
    with _only_builder(path, say):
        install_system_packages(
            recipe.packages, script=recipe.install_packages, log=log, environ=environ, say=say
        )
        if not _is_ready(path, recipe):
            _build(recipe, path, log, say, environ)
    return interpreter(path)


def add_extras(
    kind: Kind,
    name: str,
    extras: Sequence[str],
    *,
    project_extras: Sequence[str] = (),
    say: Callable[[str], None],
    environ: Mapping[str, str],
) -> Path:
    """Build the environment of `name` where needed, with more in it, and return its interpreter.

    `extras` are rpent-box's own, e.g. that of a model which shall run there too; `project_extras`
    those of the simulator's package. Nothing that is locked gets another version. Raises as
    `build_environment` does.
    """
    python = build_environment(kind, name, say=say, environ=environ)
    recipe = find_recipe(kind, name, "")
    path = environment_path(kind, name)
    projects = [f"{recipe.checkout}[{','.join(extras)}]"]
    if recipe.project is not None and project_extras:
        projects.append(f"{recipe.project}[{','.join(project_extras)}]")
    wanted = "\n".join((_projects_digest(recipe), *projects))
    noted = path / EXTRAS_MARKER
    with _only_builder(path, say):
        if noted.is_file() and noted.read_text() == wanted:
            return python
        command = Command(
            what=f"the environment of {path.name}: {', '.join((*extras, *project_extras))}",
            words=(
                *(find_uv(), "pip", "install", f"--python={python}"),
                *(f"--constraints={recipe.lock}", f"--build-constraints={recipe.tools_lock}"),
                *(f"--editable={project}" for project in projects),
            ),
            log=path.with_suffix(".log"),
            environment=_build_environ(environ),
            cwd=recipe.checkout,
        )
        run_all([command], timeout_s=BUILD_TIMEOUT_S, say=say)
        noted.write_text(wanted)
    return python


def _build(
    recipe: Recipe,
    path: Path,
    log: Path,
    say: Callable[[str], None],
    environ: Mapping[str, str],
) -> None:
    uv = find_uv()
    environment = _build_environ(environ)
    if not interpreter(path).exists():
        _make_venv(recipe, path, uv, environment)
    install = (uv, "pip", "install", f"--python={interpreter(path)}")
    steps = [*_sources(recipe, path)]
    steps += [(what, (*install, *words)) for what, words in _installs(recipe, path)]
    for what, words in steps:
        command = Command(
            what=f"the environment of {path.name}: {what}",
            words=words,
            log=log,
            environment=environment,
            cwd=recipe.checkout,
        )
        run_all([command], timeout_s=BUILD_TIMEOUT_S, say=say)
    marker = path / MARKER
    marker.with_suffix(".new").write_text(_projects_digest(recipe))
    marker.with_suffix(".new").replace(marker)


def _sources(recipe: Recipe, path: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Return what gets the source trees that are not there yet, each whole or not at all."""
    lent = recipe.checkout / "images" / "sources"
    for name in recipe.sources:
        folder = _source(path, name)
        if not folder.exists():
            where = (f"--lock={recipe.sources_lock}", f"--given={lent}")
            words = (sys.executable, str(recipe.get_source), name, str(folder), *where)
            yield f"getting the source {name}", words


def _source(path: Path, name: str) -> Path:
    return path / "sources" / name


def _installs(recipe: Recipe, path: Path) -> Iterator[tuple[str, list[str]]]:
    # The lock is the full resolution, and may have overridden what a package asks for.
    hashed = ["--require-hashes", "--no-deps", "--compile-bytecode"]
    lent = [f"--find-links={recipe.checkout / 'images' / 'wheels'}"] if recipe.variant else []
    yield "locked packages", [*hashed, *lent, f"-r={recipe.lock}"]
    for name in recipe.sources:
        yield f"the source {name}", ["--no-deps", f"--editable={_source(path, name)}"]
    projects = [recipe.checkout, *([recipe.project] if recipe.project else [])]
    editable = [f"--editable={project}" for project in projects]
    yield "rpent-box", ["--no-deps", f"--build-constraints={recipe.tools_lock}", *editable]


def _make_venv(recipe: Recipe, path: Path, uv: str, environment: Mapping[str, str]) -> None:
    """Let uv find a fitting interpreter, or download one. Raises `EnvironmentMissing`."""
    version = python_version(recipe)
    made = subprocess.run(
        [uv, "venv", "--clear", f"--python={version}", str(path)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env=dict(environment),
        timeout=BUILD_TIMEOUT_S,
    )
    if made.returncode != 0:
        raise EnvironmentMissing(
            f"{recipe.name} needs Python {version}; this machine has none, and none could be "
            "downloaded",
            hint=_python_hint(version, uv),
            detail=made.stderr.strip(),
        )


def _python_hint(version: str, uv: str) -> str:
    package = f"python{version}"
    if shutil.which("apt-cache"):
        known = subprocess.run(
            ["apt-cache", "show", package],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=60,
        )
        if known.returncode == 0:
            return f"Install it: sudo apt-get install {package}"
    return f"Install it: {uv} python install {version}"


def find_uv() -> str:
    """Return the uv beside this Python, or the one on PATH. Raises `EnvironmentMissing`."""
    beside = Path(sys.executable).parent / "uv"
    found = str(beside) if beside.is_file() else shutil.which("uv")
    if found is None:
        raise EnvironmentMissing(
            "building an environment needs uv, which is not here",
            hint=f"Install it: {sys.executable} -m pip install uv",
        )
    return found


def _build_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Give uv, which reads neither pip's settings nor the system's certificates, both."""
    indexes = read_indexes(environ)
    settings = {
        "UV_DEFAULT_INDEX": indexes.default or "",
        "UV_INDEX": " ".join(indexes.extra),
        "UV_FIND_LINKS": " ".join(indexes.find_links),
        "UV_INSECURE_HOST": " ".join(indexes.trusted_hosts),
        # As pip does. Locked hashes leave no choice between two files of one name.
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "SSL_CERT_FILE": str(certificate_bundle(environ) or ""),
    }
    kept = {key: value for key, value in environ.items() if key not in ("VIRTUAL_ENV",)}
    return {**kept, **{key: value for key, value in settings.items() if value}}


def _is_ready(path: Path, recipe: Recipe) -> bool:
    try:
        return (path / MARKER).read_text() == _projects_digest(recipe)
    except OSError:
        return False


def _projects_digest(recipe: Recipe) -> str:
    """Digest what an editable install does not follow by itself: entry points and versions."""
    files: Sequence[Path] = [recipe.checkout, *([recipe.project] if recipe.project else [])]
    texts = b"\0".join((folder / "pyproject.toml").read_bytes() for folder in files)
    return hashlib.sha256(texts).hexdigest()


@contextmanager
def _only_builder(path: Path, say: Callable[[str], None]) -> Iterator[None]:
    deadline = time.monotonic() + BUILD_TIMEOUT_S
    with path.with_suffix(".lock").open("w") as lock:
        waited = False
        while not _locked(lock.fileno()):
            if not waited:
                say(f"waiting: another command is building {path.name}")
                waited = True
            if time.monotonic() >= deadline:
                raise LaunchError(
                    f"another command has been building {path.name} for too long",
                    hint=f"Look for it: fuser {lock.name}",
                )
            time.sleep(LOCK_POLL_S)
        yield


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
