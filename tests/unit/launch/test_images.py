# SPDX-License-Identifier: Apache-2.0
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from rpent_box.errors import LaunchError
from rpent_box.launch import images
from rpent_box.launch.base_image import MADE_HERE, decide, default_base
from rpent_box.launch.recipe import find_checkout, find_recipe, recipe_names
from rpent_box.plugins import find_platform
from rpent_box.version import __version__

ROOT = Path(__file__).resolve().parents[3]
OFFICIAL = "python:3.11.13-slim-bookworm@sha256:feed"
CUDA = "nvidia/cuda:12.8.1-devel-ubuntu24.04@sha256:feed"


class FakeBases:
    """A machine with some images, a registry or none, and root or not."""

    def __init__(self, *, present: tuple[str, ...] = (), refusal: str = "", root: bool = False):
        self.present = present
        self.refusal = refusal
        self.root = root
        self.done: list[str] = []

    def is_present(self, image: str) -> bool:
        return image in self.present

    def pull(self, image: str) -> str:
        self.done.append(f"pull {image}")
        return self.refusal

    def can_make(self) -> bool:
        return self.root

    def make(self) -> None:
        self.done.append("make")


class FakeEngine:
    """An engine that knows one image's labels."""

    def __init__(self, labels: dict[str, str] | None) -> None:
        self.client = SimpleNamespace(images=SimpleNamespace(get=self._get))
        self._labels = labels

    def _get(self, _image: str) -> SimpleNamespace:
        from docker.errors import ImageNotFound

        if self._labels is None:
            raise ImageNotFound("no such image")
        return SimpleNamespace(labels=self._labels)


def test_an_image_is_called_after_what_it_holds_and_the_version() -> None:
    assert images.image_name("backend", "mini-wam") == f"rpent-box/mini-wam:{__version__}"
    assert images.image_name("platform", "libero") == f"rpent-box/sim-libero:{__version__}"


@pytest.mark.parametrize(
    ("label", "state"), [(None, "stale"), ("", "stale"), ("old", "stale"), ("now", "ready")]
)
def test_an_image_is_ready_only_when_made_from_the_checkout_as_it_is(
    label: str | None, state: str
) -> None:
    now = find_recipe("backend", "mini-wam").inputs()
    labels = {} if label is None else {images.INPUTS_LABEL: now if label == "now" else label}
    assert images.image_state(FakeEngine(labels), "backend", "mini-wam") == state  # type: ignore[arg-type]


def test_a_variant_is_part_of_the_tag() -> None:
    assert images.image_name("backend", "arm", "cpu") == f"rpent-box/arm:{__version__}-cpu"
    assert images.image_name("service", "server") == f"rpent-box/server:{__version__}"


def test_an_image_that_is_not_there_is_missing() -> None:
    assert images.image_state(FakeEngine(None), "backend", "mini-wam") == "missing"  # type: ignore[arg-type]


def test_the_inputs_change_with_the_code_the_lock_and_the_recipe(tmp_path: Path) -> None:
    for name in ("rpent_box", "images"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "Dockerfile.sim"):
        shutil.copy(ROOT / name, tmp_path / name)
    recipe = find_recipe("backend", "mini-wam", checkout=tmp_path)
    seen = {recipe.inputs()}
    for name in ("rpent_box/errors.py", "images/mini-wam/requirements.lock", "pyproject.toml"):
        with (tmp_path / name).open("a") as file:
            file.write("\n# changed\n")
        seen.add(recipe.inputs())
    assert len(seen) == 4
    (tmp_path / "rpent_box" / "__pycache__").mkdir()
    (tmp_path / "rpent_box" / "__pycache__" / "errors.pyc").write_text("compiled")
    assert recipe.inputs() in seen


def test_what_has_no_recipe_is_refused_with_the_names_that_have_one() -> None:
    with pytest.raises(LaunchError, match="no recipe for the backend nonesuch") as caught:
        find_recipe("backend", "nonesuch", checkout=ROOT)
    assert "mini-wam" in caught.value.hint


def test_a_base_made_here_before_comes_before_the_registry() -> None:
    bases = FakeBases(present=(MADE_HERE, OFFICIAL))
    assert decide(OFFICIAL, bases) == MADE_HERE
    assert bases.done == []


def test_the_official_base_is_pulled_where_a_registry_answers() -> None:
    bases = FakeBases(root=True)
    assert decide(OFFICIAL, bases) == OFFICIAL
    assert bases.done == [f"pull {OFFICIAL}"]


def test_without_a_registry_root_makes_a_base() -> None:
    bases = FakeBases(refusal="no such host", root=True)
    assert decide(OFFICIAL, bases) == MADE_HERE
    assert bases.done == [f"pull {OFFICIAL}", "make"]


def test_without_a_registry_and_root_the_error_says_why_and_gives_the_one_command() -> None:
    with pytest.raises(LaunchError, match="no such host") as caught:
        decide(OFFICIAL, FakeBases(refusal="no such host"))
    assert caught.value.hint == "Make it: sudo python3 images/base/make_base.py"


def test_a_base_made_here_stands_in_only_for_its_own_system_and_python() -> None:
    for default in (CUDA, "python:3.10.16-slim-bookworm", "python:3.11-slim-trixie"):
        bases = FakeBases(present=(MADE_HERE, default), root=True)
        assert decide(default, bases) == default
        with pytest.raises(LaunchError, match="another system or Python") as caught:
            decide(default, FakeBases(present=(MADE_HERE,), refusal="no such host", root=True))
        assert "no such host" in caught.value.message
        assert "--base IMAGE" in caught.value.hint


def test_every_recipe_names_its_base_by_tag_and_digest() -> None:
    for dockerfile in _dockerfiles():
        base = default_base(dockerfile)
        assert re.fullmatch(r"[a-z/.-]+:[\w.-]+@sha256:[0-9a-f]{64}", base), dockerfile
    official = default_base(ROOT / "Dockerfile.sim")
    assert official.startswith("python:3.11.")
    assert default_base(ROOT / "images/mini-wam/Dockerfile") == official


def test_a_recipe_without_a_default_base_is_refused(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM debian\n")
    with pytest.raises(LaunchError, match="ARG BASE=IMAGE is missing"):
        default_base(tmp_path / "Dockerfile")


def test_recipes_fetch_no_frontend_and_install_only_what_hashes_vouch_for() -> None:
    for dockerfile in _dockerfiles():
        text = dockerfile.read_text()
        assert not re.search(r"(?m)^#\s*syntax\s*=", text), dockerfile
        for command in re.findall(r"pip install(?:.|\\\n)*?(?=\n[A-Z#]|\Z)", text):
            assert "--require-hashes" in command or "--no-deps" in command, dockerfile


def test_every_locked_requirement_has_a_version_and_hashes_and_no_index_is_named() -> None:
    locks = [
        ROOT / "images/base/tools.lock",
        *ROOT.glob("images/*/requirements*.lock"),
        *ROOT.glob("platforms/*/*.lock"),
    ]
    assert len(locks) >= 3
    for lock in locks:
        text = lock.read_text()
        assert "://" not in text, lock
        requirements = re.split(r"\n(?=[a-z0-9])", re.sub(r"(?m)^#.*\n", "", text).strip())
        for requirement in requirements:
            assert re.match(r"[a-z0-9.-]+==\S+", requirement), (lock, requirement[:60])
            assert "--hash=sha256:" in requirement, (lock, requirement[:60])


def test_every_source_is_pinned_by_revision_and_tree_and_proven_by_its_image() -> None:
    pin = r"[\w.-]+ https://\S+ [0-9a-f]{40} [0-9a-f]{40}"
    for lock in ROOT.glob("images/*/sources.lock"):
        lines = [line for line in lock.read_text().splitlines() if not line.startswith("#")]
        assert lines, lock
        dockerfile = lock.with_name("Dockerfile").read_text()
        for line in lines:
            assert re.fullmatch(pin, line), (lock, line)
            assert re.search(rf"get_source\.py {line.split()[0]}\s", dockerfile), lock
        assert "git clone" not in dockerfile, lock


def test_a_platform_s_packages_are_those_that_its_image_installs() -> None:
    for name in recipe_names(ROOT, "platform"):
        recipe = find_recipe("platform", name, checkout=ROOT)
        assert set(find_platform(name).system_packages) <= set(recipe.packages)


def test_the_compose_files_use_the_images_of_this_version() -> None:
    built = {images.image_name("backend", name) for name in recipe_names(ROOT, "backend")}
    built |= {images.image_name("platform", name) for name in recipe_names(ROOT, "platform")}
    for file in (ROOT / "compose").glob("*.yaml"):
        used = set(re.findall(r"(?m)^\s+image: (rpent-box/\S+)$", file.read_text()))
        assert used, file
        assert used <= built, file


def test_this_package_runs_from_a_checkout_here() -> None:
    assert find_checkout() == ROOT


def _dockerfiles() -> list[Path]:
    return [ROOT / "Dockerfile.sim", *sorted(ROOT.glob("images/*/Dockerfile"))]
