# SPDX-License-Identifier: Apache-2.0
"""Entry points, images/, platforms/, compose/ and docs name the same backends and platforms."""

from __future__ import annotations

import ast
import importlib
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from rpent_box.backends.adapter import Adapter
from rpent_box.contracts.control import control_spec
from rpent_box.contracts.spaces import KNOWN_SPACES
from rpent_box.plugins import find_backend, find_platform

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli", reason="Python 3.10 has no tomllib")

ROOT = Path(__file__).parents[2]
SPDX = "SPDX-License-Identifier: Apache-2.0"

NOT_BACKENDS = {"base", "sglang", "sources", "wheels"}
"""Folders in images/ that serve all images, and the service that a backend speaks to."""
SERVICES = ["sglang"]
PLATFORM_GROUP = "rpent_box.platforms"
OWN_PINS = {"mini-wam"}
"""Backends whose pins are an extra of this package; the others have a requirements.in."""

HOSTS_PACKAGES = ("docker", "rich", "typer")
"""Of the extra `host`: a simulator's Python has none of them."""

PLATFORM_PAGE_SAYS = (
    *("install", "assets", "tasks", "cameras", "action", "metres", "success", "speed", "memory"),
)
"""What a page about a platform has to say, in these words, or a page that it takes them from."""


def project(path: Path) -> dict[str, dict[str, object]]:
    return tomllib.loads(path.read_text())["project"]


def entry_points(path: Path, group: str) -> dict[str, str]:
    return dict(project(path).get("entry-points", {}).get(group, {}))


BACKENDS = sorted(entry_points(ROOT / "pyproject.toml", "rpent_box.backends"))
RECIPES = sorted(path.parent.name for path in ROOT.glob("platforms/*/pyproject.toml"))
"""Folders in platforms/: each is one environment and one image, for one platform or several."""
FOLDER_OF = {
    name: folder
    for folder in RECIPES
    for name in entry_points(ROOT / "platforms" / folder / "pyproject.toml", PLATFORM_GROUP)
}
PLATFORMS = sorted(FOLDER_OF)
SOURCES = sorted(
    path
    for folder in ("rpent_box", "platforms", "images", "benchmarks", "tests")
    for path in (ROOT / folder).rglob("*.py")
    if not {"__pycache__", "build"} & set(path.parts)
    and not path.is_relative_to(ROOT / "images" / "sources")
)
"""Without the trees in images/sources, which are other people's and lie there only to be built."""


def test_each_backend_has_an_image_and_each_image_a_backend() -> None:
    folders = {folder.name for folder in (ROOT / "images").iterdir() if folder.is_dir()}
    assert folders - NOT_BACKENDS - {"__pycache__"} == set(BACKENDS)


@pytest.mark.parametrize("name", [*BACKENDS, *SERVICES])
def test_an_image_is_a_recipe_with_locked_requirements_and_a_readme(name: str) -> None:
    folder = ROOT / "images" / name
    assert "--hash=sha256:" in (folder / "requirements.lock").read_text()
    readme = (folder / "README.md").read_text().lower()
    for word in ("licence", "memory", "files", "latency"):
        assert word in readme, f"{folder.name}/README.md says nothing about its {word}"
    assert list(folder.rglob("*.py")) == [], "an image's folder holds no logic"


@pytest.mark.parametrize("name", [*BACKENDS, *SERVICES])
def test_an_image_runs_as_nobody_in_particular_and_says_what_it_is(name: str) -> None:
    dockerfile = (ROOT / "images" / name / "Dockerfile").read_text()
    last_stage = re.split(r"^FROM ", dockerfile, flags=re.MULTILINE)[-1]
    (user,) = re.findall(r"^USER (\S+)", last_stage, re.MULTILINE)
    assert user.split(":")[0] not in ("0", "root")
    assert "org.opencontainers.image.revision=" in last_stage
    for base in re.findall(r"^ARG BASE=(\S+)", dockerfile, re.MULTILINE):
        assert re.search(r"@sha256:[0-9a-f]{64}$", base), f"{base} is not pinned by its digest"


@pytest.mark.parametrize("name", sorted({*BACKENDS, *SERVICES} - OWN_PINS))
def test_the_locks_hold_the_pins_of_an_image(name: str) -> None:
    wanted = sorted((ROOT / "images" / name).glob("requirements*.in"))
    assert ROOT / "images" / name / "requirements.in" in wanted
    for path in wanted:
        lock = _plain(path.with_suffix(".lock").read_text())
        for pin in re.findall(r"^([\w.\[\],-]+==[^\s;#]+)", path.read_text(), re.MULTILINE):
            plain = re.escape(_plain(re.sub(r"\[.*\]", "", pin)))
            assert re.search(rf"^{plain}(\s|$)", lock, re.MULTILINE), f"{pin} is not locked"


@pytest.mark.parametrize("recipe", RECIPES)
def test_what_is_tested_in_a_simulators_python_does_without_the_hosts_packages(recipe: str) -> None:
    wanted: set[str] = set()
    for path in runpy.run_path(str(ROOT / "tests" / "run.py"))["paths_in_simulator"](recipe):
        files = [ROOT / path] if path.endswith(".py") else (ROOT / path).rglob("*.py")
        wanted = wanted.union(*map(_modules_of_ours, files))
    assert wanted
    program = (
        "import importlib, sys\n"
        f"sys.modules.update(dict.fromkeys({HOSTS_PACKAGES!r}))\n"
        f"for name in {sorted(wanted)!r}: importlib.import_module(name)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_variants_that_a_backend_declares_are_the_ones_that_can_be_built(backend: str) -> None:
    folder = ROOT / "images" / backend
    found = {path.stem.removeprefix("requirements-") for path in folder.glob("requirements-*.lock")}
    assert found == set(find_backend(backend).variants)
    assert not found or "VARIANT" in (folder / "Dockerfile").read_text()


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("images/*/sources.lock")), ids=lambda path: path.parent.name
)
def test_a_source_is_pinned_to_one_revision_and_one_tree(path: Path) -> None:
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    assert lines
    names = []
    for line in lines:
        name, address, revision, tree = line.split()
        names.append(name)
        assert address.startswith("https://"), line
        assert re.fullmatch(r"[0-9a-f]{40}", revision), line
        assert re.fullmatch(r"[0-9a-f]{40}", tree), line
        assert revision != tree, line
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_backend_declares_what_can_be_listed(backend: str) -> None:
    spec = find_backend(backend)
    assert spec.name == backend
    assert spec.licence
    assert spec.memory
    assert spec.proof
    assert set(spec.action_spaces) <= set(KNOWN_SPACES)
    assert spec.non_commercial or "non-commercial" not in spec.licence.lower()
    spec.options()


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_a_backend_borrows_is_an_option_of_its_own(backend: str) -> None:
    spec = find_backend(backend)
    assert not spec.borrows or getattr(spec.options(), spec.borrows.replace("-", "_")) == ""


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_backends_platforms_exist_and_move_in_its_action_spaces(backend: str) -> None:
    spec = find_backend(backend)
    assert spec.platforms
    assert set(spec.platforms) <= set(PLATFORMS)
    for name in spec.platforms:
        spaces = {control.action_space for control in find_platform(name).meta.controls}
        assert spaces & set(spec.action_spaces), f"{backend} cannot move {name}"


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_adapter_asks_for_nothing_that_its_platform_does_not_show(backend: str) -> None:
    spec = find_backend(backend)
    module = f"rpent_box.backends.{backend.replace('-', '_')}.adapter"
    adapters = importlib.import_module(module).ADAPTERS
    assert set(adapters) == set(spec.platforms)
    for name, adapter in adapters.items():
        meta = find_platform(name).meta
        assert control_spec(adapter.space) in meta.controls, name
        if not isinstance(adapter, Adapter):
            continue  # mini-wam's weights say what they look at: tests/conformance asks them
        assert set(adapter.camera_roles) <= set(meta.camera_roles), name
        assert adapter.proprio_schema.items() <= meta.proprio_schema.items(), name


@pytest.mark.parametrize("folder", RECIPES)
def test_a_folder_of_platforms_is_one_plugin_with_its_pins(folder: str) -> None:
    path = ROOT / "platforms" / folder
    assert folder in entry_points(path / "pyproject.toml", PLATFORM_GROUP)
    assert "--hash=sha256:" in (path / "requirements.lock").read_text()
    extras = project(path / "pyproject.toml")["optional-dependencies"]
    assert extras["simulator"], "the simulator's pins are its extra"


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_platform_is_made_from_the_folder_that_registers_it(platform: str) -> None:
    plugin = find_platform(platform)
    assert (plugin.recipe or plugin.name) == FOLDER_OF[platform]


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_platform_has_a_page_that_says_what_one_has_to_know(platform: str) -> None:
    folder = ROOT / "docs" / "platforms"
    page = (folder / f"{platform}.md").read_text()
    shared = FOLDER_OF[platform]
    if shared != platform and f"]({shared}.md" in page:
        page += (folder / f"{shared}.md").read_text()
    missing = [word for word in PLATFORM_PAGE_SAYS if word not in page.lower()]
    assert missing == []


def test_the_pages_about_platforms_are_those_of_platforms_and_all_are_listed() -> None:
    folder = ROOT / "docs" / "platforms"
    pages = {page.stem for page in folder.glob("*.md")} - {"README"}
    assert pages == set(PLATFORMS)
    index = (folder / "README.md").read_text()
    for page in pages:
        assert f"]({page}.md)" in index


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_platform_has_a_recorded_scene_to_be_compared_with(platform: str) -> None:
    plugin = find_platform(platform)
    assert plugin.check is not None
    assert list((ROOT / "platforms" / FOLDER_OF[platform]).glob("rpent_box_*/*golden.json"))


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_platform_declares_what_can_be_listed(platform: str) -> None:
    plugin = find_platform(platform)
    assert plugin.name == platform == plugin.meta.name
    assert plugin.licence
    assert plugin.memory
    names = [suite.name for suite in plugin.suites]
    assert len(set(names)) == len(names)
    default = next(suite for suite in plugin.suites if suite.name == plugin.default_suite)
    assert default.unavailable == ""
    spaces = [control.action_space for control in plugin.meta.controls]
    assert set(spaces) <= set(KNOWN_SPACES)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_an_image_installs_the_system_packages_that_its_platform_declares(platform: str) -> None:
    listed = (ROOT / "platforms" / FOLDER_OF[platform] / "packages.txt").read_text().splitlines()
    assert set(find_platform(platform).system_packages) <= set(listed)


@pytest.mark.parametrize("folder", RECIPES)
def test_the_locks_hold_the_pins_of_the_plugin(folder: str) -> None:
    path = ROOT / "platforms" / folder
    lock = _plain((path / "requirements.lock").read_text())
    extras = project(path / "pyproject.toml")["optional-dependencies"]
    for pin in extras["simulator"]:
        plain = _plain(re.sub(r"\[.*\]", "", pin))
        assert re.search(rf"^{re.escape(plain)}(\s|$)", lock, re.MULTILINE), f"{pin} is not locked"


def test_each_compose_file_is_a_pair_that_exists() -> None:
    files = sorted((ROOT / "compose").glob("*.yaml"))
    assert files
    for path in files:
        pairs = [(p, b) for p in PLATFORMS for b in BACKENDS if path.stem == f"{p}-{b}"]
        assert len(pairs) == 1, f"{path.name} is not named PLATFORM-BACKEND"
        platform, backend = pairs[0]
        text = path.read_text()
        assert f"rpent-box/{backend}:" in text
        assert f"rpent-box/sim-{FOLDER_OF[platform]}:" in text


def test_the_readme_points_at_every_page_of_the_documentation() -> None:
    readme = (ROOT / "README.md").read_text()
    for page in (ROOT / "docs").glob("*.md"):
        assert f"docs/{page.name}" in readme, page.name


def test_the_first_screen_of_the_readme_has_one_sentence_one_drawing_and_one_command() -> None:
    screen = (ROOT / "README.md").read_text().split("\n## ")[0]
    assert len(screen.splitlines()) <= 30
    assert re.findall(r"^    (make|rpent-box|pip|docker) (.*)$", screen, re.MULTILINE) == [
        ("make", "run")
    ]
    assert screen.count("![") <= 3
    assert "═" in screen


def test_the_make_targets_that_the_pages_name_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z%-]+):", makefile, re.MULTILINE))
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        for named in re.findall(r"(?:^    |`)make ([a-z][a-z-]*)", page.read_text(), re.MULTILINE):
            pattern = re.sub(r"^(image|sim)-(?!base$).*", r"\1-%", named)
            assert pattern in targets, f"{page.name} names make {named}"


def test_the_commands_that_the_pages_name_exist() -> None:
    from rpent_box.cli.app import app

    commands = {
        command.name or command.callback.__name__
        for command in app.registered_commands
        if command.callback is not None
    } | {group.name for group in app.registered_groups}
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        for named in re.findall(
            r"(?:^    |`|: )rpent-box ([a-z]+)", page.read_text(), re.MULTILINE
        ):
            assert named in commands, f"{page.name} names rpent-box {named}"


def test_every_source_file_carries_its_licence() -> None:
    recipes = [*ROOT.glob("images/*/Dockerfile"), ROOT / "Dockerfile.sim", ROOT / "Makefile"]
    bare = [
        str(path.relative_to(ROOT))
        for path in [*SOURCES, *recipes]
        if SPDX not in "\n".join(path.read_text().splitlines()[:3])
    ]
    assert bare == []


def test_only_the_edge_reads_settings_of_ours_from_the_environment() -> None:
    readers = [
        str(path.relative_to(ROOT))
        for path in SOURCES
        if path.is_relative_to(ROOT / "rpent_box")
        and "RPENT_BOX_RUNTIME_DIR" in _names_read_from_the_environment(path)
    ]
    assert readers == ["rpent_box/cli/surroundings.py"]


def test_models_and_simulators_are_named_only_where_they_live() -> None:
    """The command line's defaults are the one exception: `make run` needs a pair to play."""
    names = {name.replace("-", "_") for name in [*BACKENDS, *PLATFORMS]}
    strays = []
    for path in SOURCES:
        place = path.relative_to(ROOT).parts
        if place[0] != "rpent_box" or place[1] in ("backends", "cli"):
            continue
        if path.name in ("spaces.py",):
            continue
        strays += [f"{path.name}: {name}" for name in sorted(names) if name in _code_names(path)]
    assert strays == []


def _plain(text: str) -> str:
    return text.lower().replace("_", "-")


def _names_read_from_the_environment(path: Path) -> set[str]:
    """Return the constants used as keys or arguments in `path`, without its texts and comments."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            found.add(str(node.slice.value))
        if isinstance(node, ast.Call):
            found |= {str(one.value) for one in node.args if isinstance(one, ast.Constant)}
    return found


def _code_names(path: Path) -> set[str]:
    """Return the identifiers and whole-word constants of `path`."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value.replace("-", "_"))
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= set(node.module.split("."))
    return found


def _modules_of_ours(path: Path) -> set[str]:
    """Return the modules of rpent_box that a test file imports at its top, or its helpers do.

    Names of tests/support are followed; imports inside of functions are a test's own affair.
    """
    found: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            if name == "rpent_box" or name.startswith("rpent_box."):
                found.add(name)
            for helper in (ROOT / "tests" / "support").rglob(f"{name.replace('.', '/')}.py"):
                found |= _modules_of_ours(helper)
    return found
