# SPDX-License-Identifier: Apache-2.0
"""What an evaluation writes down, and what a resume makes of it."""

import json
import os
import subprocess
import sys
import time

import msgspec
import pytest
from eval_record_parts import (
    CHECKPOINT,
    IMAGES,
    JOBS,
    PLAN,
    SIMULATOR,
    STARTED,
    WORKER,
    begun,
    config,
    play,
    played,
    resumed,
    task,
)
from msgspec.structs import replace
from rpent_box_toy.backend import META as MODEL

from rpent_box.contracts.messages import Figures
from rpent_box.errors import ContractError, OutputError, ProgramDied, UsageError
from rpent_box.evaluate.scale import record as module
from rpent_box.evaluate.scale.lock import WriterLock
from rpent_box.evaluate.scale.manifest import Place, read_eval_manifest
from rpent_box.evaluate.scale.outcomes import read_failed
from rpent_box.evaluate.scale.plan import JobKey, key_of
from rpent_box.evaluate.scale.record import EvalRecord
from rpent_box.sim.manifest import host_facts
from rpent_box.sim.record import Started
from rpent_box.sim.results import read_results


def everything_in(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_an_evaluation_is_written_down_from_its_first_moment(tmp_path):
    with begun(tmp_path, build_environ={"TOKEN": "hush"}) as record:
        manifest = read_eval_manifest(record.run_dir)
        assert (manifest.status, manifest.plan, manifest.episodes) == ("running", PLAN, 12)
        assert record.left == record.jobs == JOBS
        assert read_results(record.run_dir) == []
        (session,) = manifest.sessions
        assert (session.number, session.launcher, session.ended_at) == (0, "process", None)
        assert session.command == ("rpent-box", "eval")
    assert record.name.endswith("Z-toy-toy_easy+toy_hard-toy-eval")
    assert "hush" not in (record.run_dir / "eval.json").read_text()


def test_an_evaluation_in_another_format_is_not_played_on(tmp_path):
    with begun(tmp_path) as record:
        run_dir = record.run_dir
    path = run_dir / "eval.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 2}))
    before = everything_in(run_dir)
    with pytest.raises(OutputError, match=r"eval.json has format 2; rpent-box .* reads format 1"):
        resumed(record)
    assert everything_in(run_dir) == before


def test_a_folder_of_many_suites_is_named_by_their_number(tmp_path):
    plan = replace(PLAN, backend=None, tasks=tuple(task(f"s{i}" * 20, 0) for i in range(28)))
    with EvalRecord.create(plan, config(tmp_path)) as record:
        assert record.name.endswith("Z-toy-28-suites-endpoint-eval")


def test_a_complete_evaluation_holds_everything_that_decided_it(tmp_path):
    place = Place(name="", host=host_facts(), envs=3, worker=Figures(served=5, batches={2: 3}))
    with begun(tmp_path) as record:
        record.note(checkpoint=CHECKPOINT)
        record.note(simulator=SIMULATOR, worker=WORKER, images=IMAGES)
        record.playing()
        play(record, JOBS)
        record.count_restart()
        record.place(place)
    manifest = read_eval_manifest(record.run_dir)
    assert (manifest.status, manifest.error) == ("complete", None)
    assert (manifest.simulator, manifest.worker) == (SIMULATOR, WORKER)
    assert (manifest.images, manifest.checkpoint) == (IMAGES, CHECKPOINT)
    assert (manifest.episodes_played, manifest.successes, manifest.restarts) == (12, 6, 1)
    (session,) = manifest.sessions
    assert (session.ended, session.episodes, session.places) == ("complete", 12, (place,))
    assert session.wall_s >= session.start_s > 0
    assert manifest.finished_at == session.ended_at
    rows = read_results(record.run_dir)
    assert [key_of(row) for row in rows] == [job.key for job in JOBS]
    assert {(row.session, row.simulator, row.run) for row in rows} == {(0, "0", record.name)}


def test_an_episode_has_one_result_however_often_it_is_played(tmp_path):
    with begun(tmp_path) as record:
        play(record, JOBS[:2])
        assert record.add(played(JOBS[0], steps=99)) is None
        assert [row.steps for row in record.rows] == [3, 3]
    assert len(read_results(record.run_dir)) == 2
    with resumed(record) as again:
        again.begin(STARTED)
        assert again.add(played(JOBS[1])) is None
        assert again.left == JOBS[2:]


def test_what_is_not_in_the_plan_is_not_written(tmp_path):
    with begun(tmp_path) as record:
        with pytest.raises(OutputError, match=r"toy_easy task 0, init state 5.*not in its plan"):
            record.add(played(JOBS[0], init_state=5))
        with pytest.raises(OutputError, match="as episode 3; that is episode 0 there"):
            record.add(played(JOBS[0], episode=3))
    assert read_results(record.run_dir) == []


def test_an_episode_that_ended_in_an_error_is_noted_and_left(tmp_path):
    with begun(tmp_path) as record:
        play(record, JOBS[1:])
        failed = record.fail(
            JOBS[0], code="simulator", message="it broke at http://a:b@h", simulator="2"
        )
        assert record.failed == (JOBS[0].key,)
    manifest = read_eval_manifest(record.run_dir)
    assert (manifest.status, manifest.sessions[0].ended) == ("incomplete", "incomplete")
    assert read_failed(record.run_dir) == [failed]
    assert (failed.message, failed.session) == ("it broke at http://***@h", 0)
    with resumed(record) as again:
        assert (again.left, again.failed) == ((JOBS[0],), (JOBS[0].key,))
        again.begin(STARTED)
        play(again, JOBS[:1])
        assert again.failed == ()
    assert read_eval_manifest(record.run_dir).status == "complete"


def test_a_resume_goes_on_where_it_was_and_says_so(tmp_path):
    record = begun(tmp_path)
    record.note(simulator=SIMULATOR, worker=WORKER)
    play(record, JOBS[:5])
    with pytest.raises(ProgramDied), record:
        raise ProgramDied("worker toy has ended: killed by SIGKILL")
    manifest = read_eval_manifest(record.run_dir)
    assert (manifest.status, manifest.episodes_played) == ("failed", 5)
    assert manifest.error == "ProgramDied: worker toy has ended: killed by SIGKILL"

    with resumed(record, envs=5) as again:
        assert again.left == JOBS[5:]
        assert [key_of(row) for row in again.rows] == [job.key for job in JOBS[:5]]
        again.begin(Started(launcher="docker", command=("rpent-box", "again")), executor="ray")
        running = read_eval_manifest(record.run_dir)
        assert (running.status, running.error, running.finished_at) == ("running", None, None)
        again.note(simulator=SIMULATOR, worker=WORKER)
        play(again, JOBS[5:])
    manifest = read_eval_manifest(record.run_dir)
    assert (manifest.status, manifest.config.envs) == ("complete", 5)
    first, second = manifest.sessions
    assert (first.ended, first.episodes) == (running.sessions[0].ended, 5)
    assert (second.number, second.episodes, second.executor) == (1, 7, "ray")
    assert [row.session for row in read_results(record.run_dir)] == [0] * 5 + [1] * 7


def test_a_resume_of_a_complete_evaluation_changes_nothing(tmp_path):
    with begun(tmp_path) as record:
        play(record, JOBS)
    before = everything_in(record.run_dir)
    with resumed(record) as again:
        assert again.left == ()
    del before[".writer"]
    after = everything_in(record.run_dir)
    assert {name: after[name] for name in before} == before


def test_rows_count_whatever_the_manifest_says(tmp_path):
    """A kill between a row and the manifest leaves a manifest that knows less."""
    record = begun(tmp_path)
    stale = (record.run_dir / "eval.json").read_bytes()
    play(record, JOBS[:4])
    record.close()
    (record.run_dir / "eval.json").write_bytes(stale)
    with resumed(record) as again:
        assert again.left == JOBS[4:]
        assert again.manifest.episodes_played == 4


def test_an_evaluation_whose_last_row_was_its_writers_last_is_complete(tmp_path):
    record = begun(tmp_path)
    play(record, JOBS)
    record.close()
    assert read_eval_manifest(record.run_dir).status == "running"
    with resumed(record) as again:
        again.conclude()
    manifest = read_eval_manifest(record.run_dir)
    assert (manifest.status, manifest.episodes_played) == ("complete", 12)
    assert manifest.finished_at == record.rows[-1].finished_at
    assert len(manifest.sessions) == 1


def test_rows_say_the_same_run_also_where_its_folder_was_renamed_or_moved(tmp_path):
    with begun(tmp_path) as record:
        play(record, JOBS[:1])
    moved = tmp_path / "elsewhere" / "renamed"
    moved.parent.mkdir()
    record.run_dir.rename(moved)
    with EvalRecord.resume(moved, PLAN, config(tmp_path)) as again:
        again.begin(STARTED)
        play(again, JOBS[1:2])
    assert {row.run for row in read_results(moved)} == {record.name}


def test_what_a_writer_killed_in_mid_manifest_has_left_is_removed(tmp_path):
    record = begun(tmp_path)
    record.close()
    partial = record.run_dir / ".eval.json.123.partial"
    partial.write_bytes(b'{"format": 1, "ru')
    resumed(record).close()
    assert not partial.exists()


def test_a_kill_between_the_manifest_and_the_files_of_rows_loses_nothing(tmp_path):
    record = begun(tmp_path)
    record.close()
    (record.run_dir / "results.jsonl").unlink()
    (record.run_dir / "failed.jsonl").unlink()
    with resumed(record) as again:
        assert again.left == JOBS


def test_at_whatever_byte_a_writer_is_killed_every_whole_row_counts_and_is_played_once(tmp_path):
    record = begun(tmp_path)
    play(record, JOBS[:3])
    record.fail(JOBS[3], code="simulator", message="it broke")
    record.close()
    results, failed = record.run_dir / "results.jsonl", record.run_dir / "failed.jsonl"
    whole, whole_failed = results.read_bytes(), failed.read_bytes()
    ends = [index + 1 for index, byte in enumerate(whole) if byte == ord("\n")]
    # Every byte of a line is in test_lines.py; here, those around each end and some others.
    near = {end + off for end in ends for off in (-2, -1, 0, 1)} | set(range(0, len(whole), 97))
    for length in sorted(near & set(range(len(whole) + 1))):
        results.write_bytes(whole[:length])
        failed.write_bytes(whole_failed[: length % (len(whole_failed) + 1)])
        done = sum(end <= length for end in ends)
        record = resumed(record)
        assert record.left == JOBS[done:]
        record.add(played(JOBS[done]))
        record.close()
        assert [key_of(row) for row in read_results(record.run_dir)] == [
            job.key for job in JOBS[: done + 1]
        ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"suite": "toy_soft"}, "toy_soft task 0, init state 0, seed 7"),
        ({"seed": 9}, "seed 9, as episode 0; that is not in its plan"),
        ({"episode": 4}, "as episode 4; that is episode 0 there"),
        ({}, "two results of toy_easy task 0, init state 0, seed 7"),
    ],
)
def test_rows_that_do_not_belong_there_are_refused(tmp_path, changes, message):
    with begun(tmp_path) as record:
        play(record, JOBS[:1])
    path = record.run_dir / "results.jsonl"
    fields = json.loads(path.read_bytes())
    strange = {**fields, **changes}
    path.write_text("\n".join(map(json.dumps, [strange, fields])) + "\n")
    with pytest.raises(OutputError, match=message) as caught:
        resumed(record)
    assert "by hand" in caught.value.hint
    # The lock was let go.
    WriterLock(record.run_dir).close()


@pytest.mark.parametrize(
    ("plan", "shown"),
    [
        (replace(PLAN, seeds=(7, 9)), "plan.seeds[1]: 8 → 9"),
        (replace(PLAN, seeds=(7,)), "plan.seeds: [7,8] → [7]"),
        (replace(PLAN, execute_steps=3), "plan.execute_steps: null → 3"),
        (replace(PLAN, checkpoint="/b"), "plan.checkpoint: null → /b"),
        (replace(PLAN, tasks=(task("toy_easy", 0, 3), *PLAN.tasks[1:])), "plan.tasks[0].episodes"),
        (replace(PLAN, threads=2), "plan.threads: null → 2"),
    ],
)
def test_another_plan_is_refused_and_what_differs_is_named(tmp_path, plan, shown):
    with begun(tmp_path) as record:
        pass
    before = everything_in(record.run_dir)
    with pytest.raises(UsageError, match="another evaluation was begun") as caught:
        resumed(record, plan)
    assert shown in caught.value.message
    assert f"--resume {record.run_dir}" in caught.value.hint
    assert everything_in(record.run_dir).keys() == before.keys()


def test_where_a_borrowed_worker_listens_and_how_long_it_may_take_can_change(tmp_path):
    plan = replace(PLAN, endpoint="ipc:///tmp/a.sock")
    with EvalRecord.create(plan, config(tmp_path)) as record:
        record.begin(STARTED)
    moved = replace(plan, endpoint="ipc:///tmp/b.sock", prediction_timeout_s=9.0)
    with resumed(record, moved) as again:
        again.begin(STARTED)
    assert read_eval_manifest(record.run_dir).plan == moved
    with pytest.raises(UsageError, match=r"plan.endpoint: ipc:///tmp/b.sock → null"):
        resumed(record, PLAN)


def other_file(**changes):
    return replace(CHECKPOINT, files=(replace(CHECKPOINT.files[0], **changes),))


def other_meta(**provenance):
    return replace(WORKER, meta=replace(MODEL, provenance={**MODEL.provenance, **provenance}))


@pytest.mark.parametrize(
    ("note", "shown"),
    [
        (
            {"simulator": replace(SIMULATOR, versions={"mujoco": "3.4.0"})},
            "simulator.versions.mujoco: 3.3.1 → 3.4.0",
        ),
        ({"simulator": replace(SIMULATOR, renderer="egl")}, "simulator.renderer: osmesa → egl"),
        ({"worker": replace(WORKER, rpent_box="0.2.0")}, "worker.rpent_box: 0.1.0 → 0.2.0"),
        ({"worker": other_meta(worker_threads="2")}, "worker_threads: not there → 2"),
        (
            {"worker": other_meta(revision="toy-2")},
            "worker.meta.provenance.revision: toy-1 → toy-2",
        ),
        ({"checkpoint": other_file(sha256="b")}, f"checkpoint.files[0].sha256: {'a' * 64} → b"),
        ({"images": {**IMAGES, "worker": "toy sha256:3"}}, "images.worker: toy sha256:1 → toy sha"),
        ({"images": {}}, "images.worker: toy sha256:1 → not there"),
    ],
)
@pytest.mark.parametrize("later", ["in another sitting", "in the same one"])
def test_results_of_different_programs_never_mix(tmp_path, note, shown, later):
    known = {"simulator": SIMULATOR, "worker": WORKER, "images": IMAGES, "checkpoint": CHECKPOINT}
    record = begun(tmp_path)
    record.note(**known)
    if later == "in another sitting":
        record.close()
        record = resumed(record)
        record.begin(STARTED)
    before = read_eval_manifest(record.run_dir)
    with record, pytest.raises(ContractError, match="begun with something else") as caught:
        record.note(**{**known, **note})
    # What such programs have finished meanwhile does not count.
    with pytest.raises(ContractError, match="begun with something else"):
        record.add(played(JOBS[0]))
    assert read_results(record.run_dir) == []
    assert shown in caught.value.message
    after = read_eval_manifest(record.run_dir)
    assert (after.simulator, after.worker) == (before.simulator, before.worker)
    assert (after.images, after.checkpoint) == (IMAGES, CHECKPOINT)


def test_everything_that_differs_is_named_at_once(tmp_path):
    with begun(tmp_path) as record:
        record.note(simulator=SIMULATOR, worker=WORKER)
        with pytest.raises(ContractError) as caught:
            record.note(
                simulator=replace(SIMULATOR, renderer="egl"),
                worker=replace(WORKER, rpent_box="9"),
                images=IMAGES,
            )
    for name in ("simulator.renderer", "worker.rpent_box", "images.worker", "images.simulator"):
        assert name in caught.value.message


def test_an_evaluation_that_was_killed_before_it_knew_its_programs_takes_those_of_the_next(
    tmp_path,
):
    record = begun(tmp_path)
    record.close()
    with resumed(record) as again:
        again.begin(STARTED)
        again.note(simulator=SIMULATOR, worker=WORKER, images=IMAGES, checkpoint=CHECKPOINT)
    assert read_eval_manifest(record.run_dir).images == IMAGES


def test_a_second_writer_is_told_who_the_first_is(tmp_path):
    with begun(tmp_path) as record:
        with pytest.raises(OutputError, match=f"process {os.getpid()} is playing") as caught:
            resumed(record)
        assert f"--resume {record.run_dir}" in caught.value.hint
        (record.run_dir / ".writer").write_text("")
        with pytest.raises(OutputError, match="another process is playing"):
            resumed(record)
    resumed(record).close()


def test_the_lock_of_a_killed_writer_is_free_and_its_children_do_not_keep_it(tmp_path):
    with begun(tmp_path) as record:
        pass
    hold = (
        "import subprocess, sys, time; from pathlib import Path;"
        "from rpent_box.evaluate.scale.lock import WriterLock;"
        "lock = WriterLock(Path(sys.argv[1]));"
        "subprocess.Popen(['sleep', '30'], close_fds=False);"
        "print('held', flush=True); time.sleep(30)"
    )
    writer = subprocess.Popen(
        [sys.executable, "-c", hold, str(record.run_dir)],
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert writer.stdout.readline() == b"held\n"
        with pytest.raises(OutputError, match=f"process {writer.pid} is playing"):
            resumed(record)
        writer.kill()
        writer.wait()
        resumed(record).close()
    finally:
        os.killpg(writer.pid, 9)
        writer.wait()
        writer.stdout.close()


def test_a_folder_that_is_no_evaluations_is_left_alone(tmp_path):
    with pytest.raises(OutputError, match="cannot be read"):
        EvalRecord.resume(tmp_path, PLAN, config(tmp_path))
    (tmp_path / "eval.json").write_text("{}")
    with pytest.raises(OutputError, match="is not an evaluation's manifest"):
        EvalRecord.resume(tmp_path, PLAN, config(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["eval.json"]


def test_an_interrupted_evaluation_says_so_and_can_be_resumed(tmp_path):
    record = begun(tmp_path)
    play(record, JOBS[:1])
    with pytest.raises(KeyboardInterrupt), record:
        raise KeyboardInterrupt
    manifest = read_eval_manifest(record.run_dir)
    assert (manifest.status, manifest.error) == ("failed", "stopped by SIGINT")
    assert manifest.sessions[0].ended == "stopped by SIGINT"
    assert len(resumed(record).left) == 11


def test_the_manifest_is_written_now_and_then_and_not_per_episode(tmp_path, monkeypatch):
    written = []
    genuine = module.write_eval_manifest
    monkeypatch.setattr(
        module, "write_eval_manifest", lambda *it: (written.append(it), genuine(*it))
    )
    with begun(tmp_path) as record:
        count = len(written)
        play(record, JOBS[:6])
        assert len(written) == count
        monkeypatch.setattr(module, "WRITE_EVERY_S", 0.0)
        play(record, JOBS[6:7])
        assert len(written) == count + 1
        assert read_eval_manifest(record.run_dir).episodes_played == 7


def test_no_secret_is_written_and_a_resume_with_it_goes_on(tmp_path):
    words = ("--service-url=http://me:hush@host/?token=hush", "--name=toy")
    plan = replace(PLAN, backend_arguments=words)
    asked = config(tmp_path, backend_arguments=words, build_environ={"A": "hush"})
    with EvalRecord.create(plan, asked) as record:
        record.begin(
            Started(launcher="process", command=("rpent-box", "--api-key", "hush", *words))
        )
        record.note(worker=other_meta(source=words[0]))
        record.fail(JOBS[0], code="worker", message=f"no answer: {words[0]}")
    for path in record.run_dir.iterdir():
        assert b"hush" not in path.read_bytes(), path
    assert b"http://***@host/?token=***" in (record.run_dir / "eval.json").read_bytes()
    with EvalRecord.resume(record.run_dir, plan, asked) as again:
        again.begin(STARTED)
        again.note(worker=other_meta(source=words[0]))
        assert again.manifest.plan.backend_arguments == words


def test_a_row_stands_only_when_the_files_that_it_names_are_on_the_disk(tmp_path, monkeypatch):
    with begun(tmp_path) as record:
        folder = record.episode_folder(JOBS[0])
        (folder / "actions.npy").write_bytes(b"actions")
        synced = []
        genuine = os.fsync
        monkeypatch.setattr(
            os,
            "fsync",
            lambda it: (synced.append(os.readlink(f"/proc/self/fd/{it}")), genuine(it)),
        )
        record.add(played(JOBS[0]))
        monkeypatch.undo()
    order = [str(folder / "actions.npy"), str(folder), str(record.run_dir / "results.jsonl")]
    assert [path for path in synced if path in order] == order


def test_a_manifest_of_an_older_release_still_reads(tmp_path):
    with begun(tmp_path) as record:
        pass
    path = record.run_dir / "eval.json"
    fields = json.loads(path.read_bytes())
    for name in ("images", "restarts", "sessions", "seed_rule"):
        del fields[name]
    path.write_bytes(msgspec.json.encode(fields))
    assert resumed(record).left == JOBS


def test_a_long_evaluation_is_resumed_in_no_time(tmp_path):
    plan = replace(PLAN, tasks=(task("toy_easy", 0, 5000),), seeds=(7,))
    with EvalRecord.create(plan, config(tmp_path)) as record:
        row = record.add(played(plan.jobs()[0]))
    lines = [
        msgspec.json.encode(replace(row, init_state=job.init_state, episode=job.episode))
        for job in plan.jobs()[:4000]
    ]
    (record.run_dir / "results.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    began = time.monotonic()
    with resumed(record, plan) as again:
        assert len(again.left) == 1000
        assert again.left[0].key == JobKey("toy_easy", 0, 4000, 7)
    assert time.monotonic() - began < 5
