# SPDX-License-Identifier: Apache-2.0
import importlib.util
import os
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

from rpent_box.errors import LaunchError
from rpent_box.launch import build, commands
from rpent_box.launch.commands import Command, run_all
from rpent_box.launch.host_settings import Indexes, certificate_bundle, pip_files, read_indexes
from rpent_box.launch.images import image_name
from rpent_box.launch.recipe import Kind, Recipe, Target, Variant

ROOT = Path(__file__).resolve().parents[3]
OLD_CLIENT = "Docker version 20.10.24+dfsg1, build 297e128"
NEW_CLIENT = "Docker version 28.2.2, build e6534b4"


def test_a_client_with_buildx_is_preferred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = _docker(tmp_path / "a", OLD_CLIENT, buildx=False)
    new = _docker(tmp_path / "b", NEW_CLIENT, buildx=True)
    monkeypatch.setattr(build, "_docker_commands", lambda _environ: [old, new])
    assert build.find_builder({}).words == (new, "buildx", "build", "--load")


def test_an_old_client_builds_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new = _docker(tmp_path / "a", NEW_CLIENT, buildx=False)
    old = _docker(tmp_path / "b", OLD_CLIENT, buildx=False)
    monkeypatch.setattr(build, "_docker_commands", lambda _environ: [new, old])
    builder = build.find_builder({})
    assert builder.words == (old, "build")
    assert builder.environment["DOCKER_BUILDKIT"] == "1"


def test_a_new_client_without_buildx_is_refused_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = _docker(tmp_path, NEW_CLIENT, buildx=False)
    monkeypatch.setattr(build, "_docker_commands", lambda _environ: [new])
    with pytest.raises(LaunchError, match="can build with BuildKit") as caught:
        build.find_builder({})
    assert "docker-buildx" in caught.value.hint


def test_a_command_that_takes_too_long_spoils_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "docker"
    slow.write_text("#!/bin/sh\nexec sleep 30\n")
    slow.chmod(0o755)
    monkeypatch.setattr(build, "ASK_S", 0.2)
    assert build._answer(str(slow), *build.PRUNE_REPLACED, environ=os.environ) is None


class Builds:
    """Three recipes, and a machine that only notes what it is asked to build."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rounds: list[list[Command]] = []
        self.root = root
        builder = build.Builder("/usr/bin/docker", ("docker", "build"), {})
        monkeypatch.setattr(build, "find_builder", lambda _environ: builder)
        monkeypatch.setattr(build, "find_recipe", self._recipe)
        monkeypatch.setattr(build, "choose_base", self._choose)
        monkeypatch.setattr(build, "_apt_sources", lambda _checkout: "deb http://m.test bookworm\n")
        monkeypatch.setattr(build, "lend_wheels", lambda _recipes, _environ: None)
        monkeypatch.setattr(build, "_answer", lambda *_words, environ: None)
        monkeypatch.setattr(build, "run_all", lambda few, **_: self.rounds.append(list(few)))

    def _recipe(self, kind: Kind, name: str, variant: Variant) -> Recipe:
        folder = self.root / name
        folder.mkdir(exist_ok=True)
        (folder / "Dockerfile").write_text(f"ARG BASE={name.rstrip('2')}-bookworm:1\n")
        return Recipe(
            kind=kind,
            name=name,
            variant=variant,
            checkout=self.root,
            dockerfile=folder / "Dockerfile",
            lock=folder / "requirements.lock",
            project=None,
            packages=(),
        )

    def _choose(self, _docker: str, _checkout: Path, default: str, **_: object) -> str:
        if "gone" in default:
            raise LaunchError(f"{default} could not be pulled", hint="Give a base: --base IMAGE")
        return default

    def make(self, *wanted: Target, base: str | None = None, golden: bool = True) -> list[str]:
        return build.build_images(
            wanted, say=lambda _text: None, environ={}, base=base, golden=golden
        )

    def words(self) -> dict[str, tuple[str, ...]]:
        """Return what was built → the words that built it."""
        return {command.what: command.words for few in self.rounds for command in few}


@pytest.fixture
def builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Builds:
    monkeypatch.setattr(Recipe, "inputs", lambda _recipe: "digest")
    return Builds(tmp_path, monkeypatch)


def test_only_a_simulator_that_shall_not_be_compared_is_told_so(builds: Builds) -> None:
    for golden, told in ((True, False), (False, True)):
        builds.rounds.clear()
        builds.make(Target("platform", "table"), Target("backend", "arm"), golden=golden)
        words = builds.words()
        simulator = words[f"building {image_name('platform', 'table')}"]
        worker = words[f"building {image_name('backend', 'arm')}"]
        assert ("--build-arg=GOLDEN=skipped" in simulator) is told
        assert not any("GOLDEN" in word for word in worker)


def test_a_variant_is_built_under_its_own_tag_and_with_its_name(builds: Builds) -> None:
    target = Target("backend", "arm", "cpu")
    assert builds.make(target) == [image_name(*target)]
    words = builds.words()[f"building {image_name(*target)}"]
    assert f"--tag={image_name(*target)}" in words
    assert "--build-arg=VARIANT=cpu" in words
    assert "--build-arg=BASE=arm-bookworm:1" in words
    default = Target("backend", "arm")
    builds.make(default)
    words = builds.words()[f"building {image_name(*default)}"]
    assert not any("VARIANT" in word for word in words)


def test_images_are_built_two_at_a_time(builds: Builds) -> None:
    builds.make(*(Target("backend", name) for name in ("arm", "hand", "leg")))
    assert [len(few) for few in builds.rounds] == [2, 1]


def test_one_image_without_a_base_keeps_no_other_from_being_built(builds: Builds) -> None:
    wanted = [Target("backend", name) for name in ("gone", "arm", "gone2")]
    with pytest.raises(LaunchError, match="gone: gone-bookworm:1 could not be pulled") as caught:
        builds.make(*wanted)
    assert "gone2: gone-bookworm:1" in caught.value.message
    assert caught.value.hint == "Give a base: --base IMAGE"
    assert list(builds.words()) == [f"building {image_name('backend', 'arm')}"]
    builds.rounds.clear()
    builds.make(*wanted, base="mine:1")
    assert len(builds.words()) == 3
    assert all("--build-arg=BASE=mine:1" in words for words in builds.words().values())


def test_package_sources_are_lent_only_to_a_base_of_their_suite(builds: Builds) -> None:
    def lends(base: str | None) -> bool:
        builds.rounds.clear()
        builds.make(Target("backend", "arm"), base=base)
        (words,) = builds.words().values()
        return any(word.startswith("--secret=id=apt-sources") for word in words)

    assert lends(None)
    assert not lends("ubuntu:24.04")


def test_a_failing_command_ends_the_others_and_shows_its_last_lines(tmp_path: Path) -> None:
    started = time.monotonic()
    slow = _python(tmp_path, "slow", "import time; time.sleep(60)")
    bad = _python(tmp_path, "bad", "print('no space left'); raise SystemExit(3)")
    with pytest.raises(LaunchError, match="bad failed: exit code 3") as caught:
        run_all([slow, bad], timeout_s=30, say=lambda _text: None)
    assert "no space left" in caught.value.message
    assert str(bad.log) in caught.value.hint
    assert time.monotonic() - started < 20


@pytest.mark.parametrize(
    "frame",
    [
        "#9 ERROR: executor failed running [/bin/sh -c it]: exit code: 1\n------\n"
        " > [stage-2 7/8] RUN it:\n------\nexecutor failed running [/bin/sh -c it]: exit code: 1",
        "#9 ERROR: process it did not complete\n------\n > [stage-2 7/8] RUN it:\n------\n"
        "Dockerfile.sim:9\n----------\n   8 |     # Why.\n   9 | >>> RUN it\n----------\n"
        "ERROR: failed to solve: process it did not complete",
    ],
)
def test_what_the_failing_step_of_a_build_said_is_not_hidden_by_its_frame(
    frame: str, tmp_path: Path
) -> None:
    log = f"#9 2.1 physics: it floats\n{frame}"
    with pytest.raises(LaunchError) as caught:
        run_all(
            [_python(tmp_path, "bad", f"print({log!r}); raise SystemExit(1)")],
            timeout_s=30,
            say=lambda _text: None,
        )
    assert caught.value.message.splitlines()[1:] == ["  #9 2.1 physics: it floats"]


def test_a_late_command_is_ended(tmp_path: Path) -> None:
    child = "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(60)"
    with pytest.raises(LaunchError, match="not done in time"):
        run_all([_python(tmp_path, "late", child)], timeout_s=1.5, say=lambda _text: None)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_what_a_command_logs_is_told_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "SAY_EVERY_S", 0.1)
    said: list[str] = []
    telling = "import time; print('#7 RUN pip\\n#7 sha256:feed', flush=True); time.sleep(1)"
    run_all([_python(tmp_path, "one", telling)], timeout_s=30, say=said.append)
    assert said == ["one", "one: #7 RUN pip"]


def test_a_command_that_does_not_exist_is_a_launch_error(tmp_path: Path) -> None:
    command = Command(
        what="trying", words=("/no/such",), log=tmp_path / "l", environment={}, cwd=tmp_path
    )
    with pytest.raises(LaunchError, match="/no/such cannot be run"):
        run_all([command], timeout_s=5, say=lambda _text: None)


def test_pip_s_files_and_variables_are_read_variables_last(tmp_path: Path) -> None:
    conf = tmp_path / "pip.conf"
    conf.write_text(
        "[global]\nindex-url = https://a.test/simple\n"
        "extra-index-url = file:///disk/simple\n    https://b.test/simple\n"
        "find-links = /wheels\ntrusted-host = a.test\n"
    )
    indexes = read_indexes({"PIP_TRUSTED_HOST": "c.test"}, (conf, tmp_path / "missing"))
    assert indexes == Indexes(
        default="https://a.test/simple",
        extra=("file:///disk/simple", "https://b.test/simple"),
        trusted_hosts=("c.test",),
        find_links=("/wheels",),
    )


def test_a_container_is_told_only_what_it_can_reach() -> None:
    indexes = Indexes(
        default="https://a.test/simple", extra=("file:///d", "http://b.test"), find_links=("/w",)
    ).remote()
    assert indexes.pip_conf() == (
        "[global]\nindex-url = https://a.test/simple\nextra-index-url = http://b.test\n"
    )
    assert 'url = "https://a.test/simple"\ndefault = true' in indexes.uv_toml()
    assert "file:" not in indexes.uv_toml()
    assert Indexes().remote().default is None


def test_pip_s_files_are_those_of_the_given_environment() -> None:
    files = pip_files({"HOME": "/home/me", "XDG_CONFIG_DIRS": "/x", "PIP_CONFIG_FILE": "/p"})
    assert [str(file) for file in files] == [
        "/x/pip/pip.conf",
        "/etc/pip.conf",
        "/home/me/.pip/pip.conf",
        "/home/me/.config/pip/pip.conf",
        "/p",
    ]


def test_the_certificates_are_those_that_the_environment_names(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.write_text("authorities")
    assert certificate_bundle({"SSL_CERT_FILE": str(bundle)}) == bundle
    assert certificate_bundle({"SSL_CERT_FILE": "/missing", "PIP_CERT": str(bundle)}) == bundle


def test_apt_sources_of_both_styles_give_the_mirror_and_no_third_party(tmp_path: Path) -> None:
    make_base = _load_make_base()
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list").write_text(
        "# comment\ndeb-src http://m.test/debian bookworm main\n"
        "deb [arch=amd64] http://m.test/debian bookworm main contrib\n"
    )
    (tmp_path / "sources.list.d/debian.sources").write_text(
        "Types: deb\n# a comment\nURIs: http://s.test/sec\nSuites: bookworm-security\n"
        "Components: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n"
    )
    (tmp_path / "sources.list.d/other.sources").write_text(
        "Types: deb\nURIs: http://node.test/x\nSuites: nodistro\nComponents: main\n\n"
        "Types: deb\nURIs: http://off.test\nSuites: bookworm\nComponents: main\nEnabled: no\n"
    )
    sources = make_base.apt_sources(tmp_path, "bookworm")
    assert sources == [
        "deb [arch=amd64] http://m.test/debian bookworm main contrib",
        "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://s.test/sec "
        "bookworm-security main",
    ]
    assert make_base.main_mirror(sources, "bookworm") == "http://m.test/debian"


def test_a_machine_without_a_mirror_of_the_suite_is_told_what_to_give() -> None:
    make_base = _load_make_base()
    with pytest.raises(make_base.CannotMake, match="--mirror URL"):
        make_base.main_mirror([], "bookworm")


def _load_make_base() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "rpent_box_make_base", ROOT / "images/base/make_base.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _docker(folder: Path, version: str, *, buildx: bool) -> str:
    folder.mkdir(exist_ok=True)
    path = folder / "docker"
    path.write_text(
        f'#!/bin/sh\nif [ "$1" = buildx ]; then exit {0 if buildx else 1}; fi\necho "{version}"\n'
    )
    path.chmod(0o755)
    return str(path)


def _python(folder: Path, what: str, code: str) -> Command:
    return Command(
        what=what,
        words=(sys.executable, "-c", code),
        log=folder / f"{what}.log",
        environment=dict(os.environ),
        cwd=folder,
    )
