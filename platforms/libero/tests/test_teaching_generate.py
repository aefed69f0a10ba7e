# SPDX-License-Identifier: Apache-2.0
"""Generation with real processes and files, around pretended scenes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pretended_crew
import pytest

from rpent_box.errors import ProgramDied, UnknownName
from rpent_box_libero.teaching import crew, generate
from rpent_box_libero.teaching.crew import Crew, Job, Stock
from rpent_box_libero.teaching.lerobot.recipe import Recipe
from rpent_box_libero.teaching.variables import set_variables

LESSONS = ("--lessons", "libero_spatial-0", "libero_spatial-0-says-1", "--other-share", "0.5")
WORDS = (*LESSONS, "--episodes", "4", "--workers", "1")


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate, "record_with", pretended_crew.record_pretended)


def content(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def recipe_of(*words: str) -> Recipe:
    return generate.make_recipe(generate._parser().parse_args(["--out", "x", *words]), "")


def jobs(*lessons: str) -> list[Job]:
    return [Job(number=number, lesson=name, within=0) for number, name in enumerate(lessons)]


@pytest.mark.usefixtures("pretended")
def test_the_same_bytes_come_from_any_number_of_processes_and_after_any_stop(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    assert generate.main(["--out", str(one), *WORDS]) == 0
    assert "6 episodes" in capsys.readouterr().out
    assert generate.main(["--out", str(two), *WORDS, "--workers", "2"]) == 0
    assert content(one) == content(two)
    for path in [*one.rglob("*000003*"), *one.rglob("file-003.*"), one / "meta/info.json"]:
        path.unlink()
    capsys.readouterr()
    assert generate.main(["--out", str(one), *WORDS, "--json-progress"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["event"] for line in lines] == ["begun", "episode", "finished"]
    assert (lines[0]["recorded"], lines[1]["number"], lines[2]["missing"]) == (5, 3, 0)
    assert content(one) == content(two)


def test_a_run_killed_with_its_processes_is_finished_as_it_is_and_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "out"
    environment = {**os.environ, "PRETENDED_EPISODE_S": "0.5"}
    words = [sys.executable, pretended_crew.__file__, "--out", str(out), *WORDS]
    path = os.pathsep.join(part for part in sys.path if part)
    run = subprocess.Popen(words, env={**environment, "PYTHONPATH": path}, stdout=subprocess.PIPE)
    wait_until(lambda: len(list(out.glob("meta/rpent_box/*.json"))) >= 2)
    children = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
    os.kill(run.pid, signal.SIGKILL)
    run.communicate(timeout=10)
    wait_until(lambda: not any(Path(f"/proc/{child}/exe").exists() for child in children))
    assert generate.main(["--out", str(out), "--finish"]) == 0
    assert 2 <= json.loads((out / "meta/info.json").read_text())["total_episodes"] < 6


def wait_until(holds: object) -> None:
    deadline = time.monotonic() + 60
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_simulator_that_dies_ends_the_run_and_keeps_what_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate, "record_with", pretended_crew.record_until_third)
    assert generate.main(["--out", str(tmp_path), *WORDS]) == 1
    assert "ended abruptly" in capsys.readouterr().err
    assert len(list(tmp_path.glob("meta/rpent_box/*.json"))) == 2
    assert not (tmp_path / "meta/info.json").exists()


@pytest.mark.usefixtures("pretended")
@pytest.mark.parametrize(
    ("words", "said"),
    [(["--workers", "0"], "0 workers were asked for"), (["--seed", "-1"], "-1 is no seed")],
)
def test_words_that_mean_nothing_are_refused_before_anything_is_written(
    tmp_path: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert generate.main(["--out", str(tmp_path / "out"), *WORDS, *words]) == 1
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_each_simulator_draws_on_one_thread_unless_the_caller_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for given, then in ((None, "1"), ("3", "3")):
        monkeypatch.delenv("LP_NUM_THREADS", raising=False)
        if given is not None:
            monkeypatch.setenv("LP_NUM_THREADS", given)
        monkeypatch.setenv("OMP_NUM_THREADS", "8")
        set_variables()
        assert (os.environ["LP_NUM_THREADS"], os.environ["OMP_NUM_THREADS"]) == (then, "1")


@pytest.mark.usefixtures("pretended")
def test_another_recipe_in_the_same_folder_is_refused_and_says_what_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    generate.check_recipe(tmp_path, recipe_of(*WORDS))
    generate.check_recipe(tmp_path, recipe_of(*WORDS))
    assert generate.main(["--out", str(tmp_path), *WORDS, "--noise", "0.5"]) == 1
    assert "noise: 1.0, not 0.5" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_a_dataset_that_something_else_made_is_refused_and_left_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [
        tmp_path / "data/chunk-000/file-000.parquet",
        tmp_path / "videos/observation.images.top/chunk-000/file-000.mp4",
        tmp_path / "meta/info.json",
    ]
    for path in files:
        path.parent.mkdir(parents=True)
        path.write_bytes(b"not ours")
    assert generate.main(["--out", str(tmp_path), *WORDS]) == 1
    assert "made by something else" in capsys.readouterr().err
    assert all(path.read_bytes() == b"not ours" for path in files)
    assert not (tmp_path / "meta/rpent_box.json").exists()


def test_a_folder_with_only_notes_beside_it_is_a_new_one(tmp_path: Path) -> None:
    (tmp_path / "making").mkdir()
    generate.check_recipe(tmp_path, recipe_of(*WORDS))
    assert (tmp_path / "meta/rpent_box.json").exists()


def test_two_programs_do_not_write_to_one_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with generate._alone(tmp_path):
        assert generate.main(["--out", str(tmp_path), *WORDS]) == 1
    assert "another program" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[*WORDS], ["--finish"]])
def test_an_unusable_folder_is_an_error_with_its_reason(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert generate.main(["--out", str(tmp_path / "file" / "below"), *words]) == 1
    assert "below" in capsys.readouterr().err


def test_a_suite_stands_for_its_lessons_and_another_sentence_gets_its_share() -> None:
    words = ["--lessons", "libero_spatial", "--episodes", "10", "--other-share", "0.3"]
    shares = {share.name: share.episodes for share in recipe_of(*words).lessons}
    assert len(shares) == 20
    assert shares["libero_spatial-3"] == 10
    assert shares["libero_spatial-3-says-9"] == 3
    own = recipe_of(*words, "--own")
    assert {share.name for share in own.lessons} == {f"libero_spatial-{n}" for n in range(10)}
    assert own.episodes == 100


def test_a_lesson_that_is_not_there_is_refused_with_the_ones_there_are() -> None:
    with pytest.raises(UnknownName) as caught:
        recipe_of("--lessons", "libero_10")
    assert "libero_spatial-0-says-1" in caught.value.hint


def test_an_episodes_random_numbers_follow_from_seed_lesson_and_number_alone() -> None:
    def first(*key: object) -> float:
        return float(crew.episode_rng(*key).random())  # type: ignore[arg-type]

    keys = [(1, "a", 0), (1, "a", 1), (1, "b", 0), (2, "a", 0)]
    assert len({first(*key) for key in keys}) == 4
    assert first(1, "a", 0) == first(1, "a", 0)


def test_who_is_free_stays_in_its_scene_then_takes_one_that_nobody_has() -> None:
    stock = Stock(jobs("a", "a", "a", "b", "c", "c"))
    taken = [
        stock.take("", set()),
        stock.take("", {"a"}),
        stock.take("b", {"a", "b"}),
        stock.take("a", {"a", "c"}),
        stock.take("c", {"a", "c"}),
        stock.take("c", {"a", "c"}),
        stock.take("a", {"a"}),
    ]
    assert [job.lesson if job else None for job in taken] == ["a", "b", "c", "a", "c", "a", None]


def test_a_busy_process_that_is_ended_leaves_no_temporary_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("PRETENDED_EPISODE_S", "60")
    setup = crew.Setup(
        out=str(tmp_path / "out"),
        seed=1,
        recording=recipe_of(*WORDS).recording,
        student=crew.StudentSource(),
    )
    made = Crew(setup, opens=pretended_crew.record_pretended, answers=crew.Done, workers=1)

    def interrupt(*_: object, **__: object) -> None:
        wait_until(lambda: list(tmp_path.glob("rpent-box-libero-*")))
        raise KeyboardInterrupt

    monkeypatch.setattr(crew, "wait", interrupt)
    with pytest.raises(KeyboardInterrupt), made:
        list(made.play(jobs("a")))
    assert not list(tmp_path.glob("rpent-box-libero-*"))


def test_a_silent_simulator_ends_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(crew, "EPISODE_DEADLINE_S", 0.01)
    setup = crew.Setup(
        out=str(tmp_path),
        seed=1,
        recording=recipe_of(*WORDS).recording,
        student=crew.StudentSource(),
    )
    made = Crew(setup, opens=pretended_crew.record_pretended, answers=crew.Done, workers=1)
    with made, pytest.raises(ProgramDied, match="took over"):
        list(made.play(jobs("a")))
