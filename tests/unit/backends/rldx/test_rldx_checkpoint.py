# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import pytest
from rldx_checkpoint import CONFIG, make_checkpoint, make_hf_home, statistics, write, write_weights
from rldx_native_server import KITCHEN_VIDEO

from rpent_box.backends.rldx.checkpoint import inspect
from rpent_box.backends.rldx.options import RldxOptions
from rpent_box.errors import BadCheckpoint, BadOption


def look(folder, **options):
    return inspect(RldxOptions(**options), folder, "robocasa")


def names(inspection, folder):
    return {file.role: Path(file.path).relative_to(folder).as_posix() for file in inspection.files}


@pytest.fixture
def folder(tmp_path):
    return make_checkpoint(tmp_path / "RLDX-1-FT-RC365")


def test_a_sound_checkpoints_files_and_facts_are_found(folder):
    found = look(folder)
    assert names(found, folder) == {
        "config": "config.json",
        "weights": "model.safetensors",
        "processor config": "processor/processor_config.json",
        "statistics": "processor/statistics.json",
        "embodiment heads": "processor/embodiment_id.json",
    }
    assert found.facts == {
        "action_horizon": "16",
        "execute_steps": "8",
        "frames_steps_ago": "0",
        "history": "none needed",
        "memory": "none",
        "real_time_chunking": "none 0",
        "normalisation": "q01/q99",
        "embodiment": "GENERAL_EMBODIMENT",
        "backbone": "Qwen/Qwen3-VL-8B-Instruct",
    }
    assert found.suites == ()


def test_the_processors_files_may_lie_beside_the_config(tmp_path):
    folder = make_checkpoint(tmp_path / "flat", processor=False)
    assert names(look(folder), folder)["statistics"] == "statistics.json"


def test_weights_in_parts_are_all_there_or_the_checkpoint_is_refused(folder):
    (folder / "model.safetensors").unlink()
    for part in (1, 2):
        write_weights(folder / f"model-0000{part}-of-00002.safetensors")
    parts = {f"w{part}": f"model-0000{part}-of-00002.safetensors" for part in (1, 2)}
    write(folder / "model.safetensors.index.json", {"weight_map": parts})
    assert [file.role for file in look(folder).files].count("weights") == 2
    (folder / parts["w2"]).unlink()
    with pytest.raises(BadCheckpoint, match="lacks 1 files of weights.*model-00002"):
        look(folder)


def test_cut_heads_are_refused(folder):
    (folder / "processor/embodiment_id.json").write_text('{"general_embodiment": ')
    with pytest.raises(BadCheckpoint, match="embodiment heads .* is not JSON"):
        look(folder)


def test_cut_weights_are_refused(folder):
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[:-1])
    with pytest.raises(BadCheckpoint):
        look(folder)


@pytest.mark.parametrize(
    ("file", "named"),
    [
        ("config.json", "no config"),
        ("model.safetensors", "no weights"),
        ("processor/processor_config.json", "no processor config"),
        ("processor/statistics.json", "no statistics"),
    ],
)
def test_a_missing_file_is_named(folder, file, named):
    (folder / file).unlink()
    with pytest.raises(BadCheckpoint, match=named):
        look(folder)


def test_nothing_there_is_refused(tmp_path):
    for place in (tmp_path, tmp_path / "missing"):
        with pytest.raises(BadCheckpoint):
            look(place)


def test_another_model_is_refused(folder):
    write(folder / "config.json", {**CONFIG, "model_type": "Gr00tN1d7"})
    with pytest.raises(BadCheckpoint, match="is of a Gr00tN1d7 model; wanted RLDX-1"):
        look(folder)


def test_another_robots_checkpoint_is_refused(tmp_path):
    other = make_checkpoint(tmp_path / "gr1", video=("ego_view",))
    with pytest.raises(BadCheckpoint, match="the camera ego_view"):
        look(other)
    tagged = make_checkpoint(tmp_path / "libero", tag="libero_panda")
    with pytest.raises(BadCheckpoint, match="not trained for GENERAL_EMBODIMENT; it has: libero"):
        look(tagged)


def test_the_older_robocasas_checkpoint_is_one_too(tmp_path):
    folder = make_checkpoint(tmp_path / "kitchen", video=KITCHEN_VIDEO, tag="robocasa_panda_omron")
    assert look(folder, embodiment="ROBOCASA_PANDA_OMRON").facts["action_horizon"] == "16"


def test_statistics_of_another_robot_are_refused(folder):
    changed = {"general_embodiment": statistics()}
    changed["general_embodiment"]["action"]["base_motion"]["q99"] = [1.0] * 3
    write(folder / "processor/statistics.json", changed)
    with pytest.raises(BadCheckpoint, match="base_motion"):
        look(folder)
    write(folder / "processor/statistics.json", {"libero_panda": statistics()})
    with pytest.raises(BadCheckpoint, match="general_embodiment"):
        look(folder)


def test_statistics_without_percentiles_are_read_by_their_bounds(folder):
    path = folder / "processor/processor_config.json"
    settings = json.loads(path.read_text())
    settings["processor_kwargs"]["use_percentiles"] = False
    write(path, settings)
    assert look(folder).facts["normalisation"] == "min/max"


def test_a_memorys_stride_must_be_the_steps_that_are_executed(tmp_path):
    folder = make_checkpoint(tmp_path / "memory", config={"use_memory": True, "memory_stride": 16})
    with pytest.raises(
        BadOption, match="every 16th control step, and would be asked after every 8"
    ):
        look(folder)
    assert look(folder, execute_steps=16).facts["memory"] == "every 16 steps"
    assert look(folder, memory=False).facts["memory"] == "switched off"


def test_with_a_memory_the_window_is_that_of_the_models_config(tmp_path):
    def frames(**config):
        folder = make_checkpoint(tmp_path / "m", config={"use_memory": True, **config})
        return look(folder, execute_steps=16).facts["frames_steps_ago"]

    assert frames() == "6 4 2 0"
    assert frames(video_length=2, video_stride=3) == "3 0"
    assert frames(use_video=False) == "0"


def test_without_one_it_is_the_processors(tmp_path):
    folder = make_checkpoint(tmp_path / "video", deltas=(-6, -4, -2, 0))
    facts = look(folder, history="predictions").facts
    assert (facts["frames_steps_ago"], facts["history"]) == ("6 4 2 0", "predictions")


def test_a_chunk_is_long_enough_for_what_is_executed_and_continued(folder):
    with pytest.raises(BadOption, match="do not fit into a chunk of 16 steps"):
        look(folder, execute_steps=17)
    with pytest.raises(BadOption, match="--rtc-delay 4 behind them do not fit"):
        look(folder, execute_steps=13, rtc="guided", rtc_delay=4)
    assert look(folder, execute_steps=12, rtc="guided", rtc_delay=4).facts["real_time_chunking"]


def test_trained_chunking_needs_a_checkpoint_that_was_trained_for_it(tmp_path):
    plain = make_checkpoint(tmp_path / "plain")
    with pytest.raises(BadOption, match="up to 0, not 2") as caught:
        look(plain, rtc="trained", rtc_delay=2)
    assert "guided" in caught.value.hint
    trained = make_checkpoint(tmp_path / "trained", config={"rtc_training_max_delay": 4})
    assert look(trained, rtc="trained", rtc_delay=4)
    with pytest.raises(BadOption, match="up to 4, not 5"):
        look(trained, rtc="trained", rtc_delay=5)


def test_the_backbones_small_files_are_found_in_the_cache(folder, tmp_path):
    home = make_hf_home(tmp_path / "hf")
    roles = [file.role for file in look(folder, hf_home=str(home)).files]
    assert {"backbone config", "image processor config", "tokenizer config", "tokenizer"} <= set(
        roles
    )


def test_a_cache_without_them_is_refused_with_the_command_that_fetches_them(folder, tmp_path):
    (tmp_path / "hf").mkdir()
    with pytest.raises(BadCheckpoint, match="does not hold Qwen/Qwen3-VL-8B-Instruct") as caught:
        look(folder, hf_home=str(tmp_path / "hf"))
    assert "hf download Qwen/Qwen3-VL-8B-Instruct" in caught.value.hint
    home = make_hf_home(tmp_path / "cut")
    next(home.glob("hub/*/snapshots/*/vocab.json")).unlink()
    next(home.glob("hub/*/snapshots/*/merges.txt")).unlink()
    with pytest.raises(BadCheckpoint, match="has no tokenizer"):
        look(folder, hf_home=str(home))


def test_a_backbone_that_names_a_program_is_refused_since_loading_would_run_it(folder, tmp_path):
    home = make_hf_home(tmp_path / "hf")
    (snapshot,) = home.glob("hub/*/snapshots/*")
    write(snapshot / "tokenizer_config.json", {"auto_map": {"AutoTokenizer": "x/y--z.Tokens"}})
    with pytest.raises(BadCheckpoint, match=r"names a program.*x/y--z\.Tokens"):
        look(folder, hf_home=str(home))
    write(snapshot / "tokenizer_config.json", {"auto_map": {}})
    assert look(folder, hf_home=str(home)).files
    (snapshot / "modeling.py").write_text("print('here')")
    with pytest.raises(BadCheckpoint, match="is a program"):
        look(folder, hf_home=str(home))


def test_a_backbone_may_be_named_by_its_folder(tmp_path):
    home = make_hf_home(tmp_path / "hf")
    snapshot = next(home.glob("hub/*/snapshots/*"))
    folder = make_checkpoint(tmp_path / "own", config={"model_name": str(snapshot)})
    assert "backbone config" in [file.role for file in look(folder).files]


def test_another_platform_is_refused(folder):
    with pytest.raises(BadOption, match="no adapter for the platform libero"):
        inspect(RldxOptions(), folder, "libero")
