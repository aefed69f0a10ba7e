# SPDX-License-Identifier: Apache-2.0
"""What an image or an environment is made from, in which variant."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from rpent_box_toy.platform import PLATFORM

from rpent_box.errors import LaunchError
from rpent_box.launch.recipe import Target, find_recipe, platform_target, recipe_names

SOURCE = f"thing https://forge.test/thing.git {'a' * 40} {'b' * 40}\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout with an image of two variants and a source, one of neither, a platform."""
    for name in ("arm", "plain", "base"):
        (tmp_path / "images" / name).mkdir(parents=True)
    (tmp_path / "platforms/table").mkdir(parents=True)
    (tmp_path / "rpent_box").mkdir()
    files = {
        "pyproject.toml": "[project]\n",
        "images/base/tools.lock": "",
        "images/base/with-host.sh": "",
        "images/base/get_source.py": "",
        "images/arm/Dockerfile": "FROM scratch\n",
        "images/arm/README.md": "Arm\n",
        "images/arm/requirements.in": "torch\n",
        "images/arm/requirements.lock": "torch==1\n",
        "images/arm/requirements-cpu.in": "torch\n",
        "images/arm/requirements-cpu.lock": "torch==1+cpu\n",
        "images/arm/sources.lock": f"# Where it comes from.\n\n{SOURCE}",
        "images/base/install_packages.py": "",
        "images/base/golden.sh": "",
        "images/base/start.sh": "",
        "Dockerfile.sim": "FROM scratch\n",
        "platforms/table/requirements.lock": "mujoco==1\n",
        "platforms/table/packages.txt": "# Why.\nliba\nmesa/bookworm-backports\n",
        "images/plain/Dockerfile": "FROM scratch\n",
        "images/plain/requirements.lock": "onnx==1\n",
    }
    for path, text in files.items():
        (tmp_path / path).write_text(text)
    return tmp_path


def change(path: Path) -> None:
    with path.open("a") as file:
        file.write("# changed\n")


def test_a_variant_has_a_lock_of_its_own_and_shares_the_rest(checkout: Path) -> None:
    default = find_recipe("backend", "arm", checkout=checkout)
    cpu = find_recipe("backend", "arm", "cpu", checkout=checkout)
    assert (default.lock.name, cpu.lock.name) == ("requirements.lock", "requirements-cpu.lock")
    assert default.dockerfile == cpu.dockerfile
    assert default.sources == cpu.sources == ("thing",)
    assert recipe_names(checkout, "backend") == ["arm", "plain"]


def test_a_variant_that_there_is_not_is_refused_with_what_there_is(checkout: Path) -> None:
    with pytest.raises(LaunchError, match="no cpu variant of plain") as caught:
        find_recipe("backend", "plain", "cpu", checkout=checkout)
    assert caught.value.hint == "There is: rpent-box build plain"


def test_the_command_that_builds_a_target_names_its_variant() -> None:
    assert Target("backend", "arm").command == "rpent-box build arm"
    assert Target("backend", "arm", "cpu").command == "rpent-box build arm --variant cpu"


def test_a_lock_with_its_own_requirements_is_for_one_python(checkout: Path) -> None:
    assert find_recipe("backend", "arm", checkout=checkout).is_for_one_python
    assert not find_recipe("backend", "plain", checkout=checkout).is_for_one_python


def test_an_image_gets_old_by_its_own_files_and_not_by_the_other_variants(checkout: Path) -> None:
    default = find_recipe("backend", "arm", checkout=checkout)
    cpu = find_recipe("backend", "arm", "cpu", checkout=checkout)
    before = default.inputs(), cpu.inputs()
    change(checkout / "images/arm/requirements-cpu.lock")
    change(checkout / "images/arm/README.md")
    assert default.inputs() == before[0]
    assert cpu.inputs() != before[1]
    for path in ("images/arm/sources.lock", "images/base/get_source.py"):
        seen = default.inputs()
        change(checkout / path)
        assert default.inputs() != seen, path


def test_the_script_that_gets_sources_is_no_part_of_an_image_without_any(checkout: Path) -> None:
    plain = find_recipe("backend", "plain", checkout=checkout)
    before = plain.inputs()
    change(checkout / "images/base/get_source.py")
    assert plain.inputs() == before


def test_a_simulators_image_gets_old_by_what_installs_compares_and_starts_it(
    checkout: Path,
) -> None:
    table = find_recipe("platform", "table", checkout=checkout)
    assert table.packages == ("liba", "mesa/bookworm-backports")
    plain = find_recipe("backend", "plain", checkout=checkout).inputs()
    for name in ("install_packages.py", "golden.sh", "start.sh"):
        before = table.inputs()
        change(checkout / "images/base" / name)
        assert table.inputs() != before, name
    assert find_recipe("backend", "plain", checkout=checkout).inputs() == plain


def test_platforms_may_be_made_from_one_recipe() -> None:
    assert platform_target(PLATFORM) == Target("platform", "toy")
    shared = platform_target(replace(PLATFORM, recipe="table"))
    assert shared == Target("platform", "table")
    assert shared.command == "rpent-box build table"
