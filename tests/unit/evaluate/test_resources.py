# SPDX-License-Identifier: Apache-2.0
from types import SimpleNamespace

import pytest
from rpent_box_toy.running import toy_config

from rpent_box.errors import EnvironmentMissing, ImageMissing
from rpent_box.evaluate import programs, resources
from rpent_box.evaluate.config import SilentWatcher
from rpent_box.evaluate.resources import (
    IN_IMAGE,
    build_images_of,
    find_resources,
    image_ids,
)
from rpent_box.launch.images import image_name
from rpent_box.launch.recipe import Target
from rpent_box.worker.needs import Needs

PROCESS = SimpleNamespace(name="process", view="host")
TOY = Target("backend", "toy")
DOCKER = SimpleNamespace(name="docker", view="container")


@pytest.fixture
def engine(monkeypatch):
    """Give the docker launcher an engine whose images stand in `states`."""
    made = SimpleNamespace(states={}, built=[])
    monkeypatch.setattr(resources, "_engine", lambda launcher: made)
    monkeypatch.setattr(
        resources, "image_state", lambda one, kind, name, variant: one.states[name + variant]
    )
    monkeypatch.setattr(resources, "image_id", lambda one, image: f"sha256:{image}")

    def build_images(wanted, *, say, environ):
        made.built.append((wanted, environ))

    monkeypatch.setattr("rpent_box.launch.build.build_images", build_images)
    return made


@pytest.fixture
def environments(monkeypatch):
    """Stand in for the built environments: name → interpreter."""
    built = {}

    def require(kind, name, variant):
        if name not in built:
            raise EnvironmentMissing(f"the Python environment of {name} is not built")
        return built[name]

    def build(kind, name, variant, *, say, environ):
        say("installing")
        built[name] = f"/built/{name}/{environ['PROXY']}"
        return built[name]

    monkeypatch.setattr(resources, "find_environment", lambda kind, name, variant: built.get(name))
    monkeypatch.setattr(resources, "require_environment", require)
    monkeypatch.setattr(resources, "build_environment", build)
    return built


def find(tmp_path, launcher, *, target=TOY, given=None, **changes):
    said = []
    config = toy_config(tmp_path, build_environ={"PROXY": "p"}, **changes)
    return find_resources(target, given, launcher, config, said.append), said


def test_a_given_interpreter_is_taken_as_it_is(tmp_path, environments):
    found, _ = find(tmp_path, PROCESS, given="/my/python")
    assert found.python == "/my/python"


def test_a_built_environment_is_found(tmp_path, environments):
    environments["toy"] = "/venv/bin/python"
    assert find(tmp_path, PROCESS)[0].python == "/venv/bin/python"


def test_a_missing_environment_is_an_error_unless_it_may_be_built(tmp_path, environments):
    with pytest.raises(EnvironmentMissing):
        find(tmp_path, PROCESS)
    found, said = find(tmp_path, PROCESS, build=True)
    assert found.python == "/built/toy/p"
    assert said == ["installing"]


def test_a_built_image_is_taken(tmp_path, engine):
    engine.states["toy"] = "ready"
    found, said = find(tmp_path, DOCKER)
    assert (found.image, found.python) == (image_name("backend", "toy"), IN_IMAGE)
    assert said == []
    assert engine.built == []


def test_an_old_image_is_taken_and_said_to_be_old(tmp_path, engine):
    engine.states["toy"] = "stale"
    _, said = find(tmp_path, DOCKER)
    assert "older than this checkout" in said[0]
    assert engine.built == []


def test_a_missing_image_is_an_error_that_names_the_command(tmp_path, engine):
    engine.states["toy"] = "missing"
    with pytest.raises(ImageMissing, match="is not built") as caught:
        find(tmp_path, DOCKER)
    assert "rpent-box build toy" in caught.value.hint


@pytest.mark.parametrize("state", ["missing", "stale"])
def test_images_that_are_missing_or_old_are_built_in_one_go(tmp_path, engine, state):
    engine.states |= {"toy": state, "libero": "missing", "other": "ready"}
    wanted = [Target("backend", "toy"), Target("platform", "libero"), Target("backend", "other")]
    config = toy_config(tmp_path, build_environ={"PROXY": "p"})
    build_images_of(wanted, DOCKER, config, print)
    assert engine.built == [(wanted[:2], {"PROXY": "p"})]


def test_nothing_is_built_when_every_image_is_ready(tmp_path, engine):
    engine.states["toy"] = "ready"
    build_images_of([Target("backend", "toy")], DOCKER, toy_config(tmp_path), print)
    assert engine.built == []


@pytest.mark.parametrize(("recipe", "made_from"), [("", "table"), ("furniture", "furniture")])
def test_a_run_builds_the_images_of_both_programs_before_it_looks_for_them(
    tmp_path, monkeypatch, recipe, made_from
):
    built = []
    monkeypatch.setattr(
        programs, "build_images_of", lambda wanted, launcher, config, say: built.append(wanted)
    )
    monkeypatch.setattr(programs, "find_resources", lambda target, *_: built.append(target))
    checked = SimpleNamespace(
        plugin=SimpleNamespace(name="table", recipe=recipe),
        spec=SimpleNamespace(name="arm"),
        needs=Needs(device="cpu", cpu_variant=True),
    )
    for build in (True, False):
        config = toy_config(tmp_path, build=build)
        programs.gather(config, checked, DOCKER, SilentWatcher())
    worker, simulator = Target("backend", "arm", "cpu"), Target("platform", made_from)
    assert built == [[simulator, worker], worker, simulator, worker, simulator]


def test_a_variant_has_an_image_of_its_own_and_its_own_command(tmp_path, engine):
    engine.states |= {"toy": "ready", "toycpu": "missing"}
    with pytest.raises(ImageMissing) as caught:
        find(tmp_path, DOCKER, target=Target("backend", "toy", "cpu"))
    assert "rpent-box build toy --variant cpu" in caught.value.hint


def test_of_containers_the_image_is_known_by_name_and_id(engine):
    program = SimpleNamespace(role="worker", image="rpent-box/toy:1")
    assert image_ids(DOCKER, [program]) == {"worker": "rpent-box/toy:1 sha256:rpent-box/toy:1"}


def test_processes_have_no_image_ids():
    program = SimpleNamespace(role="worker", image="rpent-box/toy:1")
    assert image_ids(PROCESS, [program]) == {}
