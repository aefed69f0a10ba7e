# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from rpent_box.cli.app import app
from rpent_box.errors import LaunchError
from rpent_box.launch.images import image_name
from rpent_box.launch.recipe import Kind, Target, Variant

TOY = [Target("backend", "toy"), Target("platform", "toy")]


class Builders:
    """Stand in for the two builders and the choice between them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.launcher = "docker"
        self.images: list[Target] = []
        self.environments: list[Target] = []
        self.base: str | None = None
        self.error: LaunchError | None = None
        monkeypatch.setattr("rpent_box.cli.build.choose_launcher", self.choose)
        monkeypatch.setattr("rpent_box.cli.products.build_images", self.build_images)
        monkeypatch.setattr("rpent_box.cli.products.build_environment", self.build_environment)
        monkeypatch.setattr("rpent_box.cli.products.find_recipe", lambda kind, name, variant: None)

    def choose(self, asked: str) -> tuple[SimpleNamespace, str]:
        return SimpleNamespace(name=self.launcher if asked == "auto" else asked), "a reason"

    def build_images(self, targets: Sequence[Target], *, base: str | None, **_: object) -> None:
        if self.error is not None:
            raise self.error
        self.images += targets
        self.base = base

    def build_environment(self, kind: Kind, name: str, variant: Variant, **_: object) -> Path:
        self.environments.append(Target(kind, name, variant))
        return Path("/environments") / name


@pytest.fixture
def builders(toy: None, monkeypatch: pytest.MonkeyPatch) -> Builders:
    return Builders(monkeypatch)


def invoke(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["build", *words])
    return result.exit_code, result.stdout, result.stderr


def test_a_name_stands_for_the_backend_and_the_platform_so_called(builders: Builders) -> None:
    code, out, err = invoke("toy", "--base", "debian:12")
    assert code == 0
    assert builders.images == TOY
    assert builders.base == "debian:12"
    assert out.splitlines() == [
        f"backend toy: {image_name('backend', 'toy')}",
        f"platform toy: {image_name('platform', 'toy')}",
    ]
    assert "launcher: docker (a reason)" in err


def test_a_name_given_twice_is_built_once(builders: Builders) -> None:
    invoke("toy", "TOY", "--quiet")
    assert builders.images == TOY


def test_without_docker_environments_are_built(builders: Builders) -> None:
    code, out, _ = invoke("toy", "--launcher", "process", "--json")
    assert code == 0
    assert builders.images == []
    assert json.loads(out)["built"][0] == {
        "kind": "backend",
        "name": "toy",
        "variant": "",
        "image": None,
        "python": "/environments/toy",
    }


def test_a_variant_is_built_instead_of_the_default(builders: Builders) -> None:
    code, out, _ = invoke("toy", "--variant", "cpu")
    assert code == 0
    assert builders.images == [target._replace(variant="cpu") for target in TOY]
    assert f"backend toy (cpu): {image_name('backend', 'toy', 'cpu')}" in out


def test_a_service_has_an_image_and_no_environment(builders: Builders) -> None:
    code, _, err = invoke("sglang", "--launcher", "process")
    assert code == 2
    assert "it is a service" in err
    assert "next:  Build the image: rpent-box build sglang --launcher docker" in err
    code, _, err = invoke("--all", "--launcher", "process")
    assert code == 0
    assert "sglang is left out" in err
    assert Target("backend", "cosmos3") in builders.environments
    assert not any(target.kind == "service" for target in builders.environments)
    assert invoke("sglang")[0] == 0
    assert builders.images == [Target("service", "sglang")]


def test_all_means_every_recipe_of_the_checkout(builders: Builders) -> None:
    assert invoke("--all")[0] == 0
    assert Target("backend", "mini-wam") in builders.images
    assert Target("platform", "libero") in builders.images


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "what shall be built?"),
        (("--all", "--variant", "cpu"), "--all builds the default variants"),
        (("toy", "--variant", "gpu"), "gpu"),
        (("nobody",), "no backend and no platform called nobody"),
        (("toy", "--launcher", "process", "--base", "x"), "--base is for images"),
    ],
)
def test_wrong_usage_exits_with_2(builders: Builders, words: tuple[str, ...], said: str) -> None:
    code, out, err = invoke(*words)
    assert (code, out) == (2, "")
    assert said in err


def test_a_build_that_fails_exits_with_1(builders: Builders) -> None:
    builders.error = LaunchError("building it failed: exit code 1", hint="Its log: /x.log")
    code, out, err = invoke("toy")
    assert (code, out) == (1, "")
    assert "next:  Its log: /x.log" in err


def test_platforms_that_share_a_recipe_are_built_once(
    builders: Builders, monkeypatch: pytest.MonkeyPatch
) -> None:
    from msgspec.structs import replace
    from rpent_box_toy.platform import PLATFORM

    plugins = {
        name: replace(PLATFORM, name=name, recipe=recipe)
        for name, recipe in (("bricks", ""), ("bricks-pro", "bricks"))
    }
    monkeypatch.setattr("rpent_box.cli.products.find_platform", plugins.__getitem__)
    code, out, _ = invoke("bricks", "bricks-pro")
    assert code == 0
    assert builders.images == [Target("platform", "bricks")]
    assert out == f"platform bricks: {image_name('platform', 'bricks')}\n"
