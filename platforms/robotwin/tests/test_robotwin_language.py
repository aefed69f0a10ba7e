# SPDX-License-Identifier: Apache-2.0
import ast
import json
import os
import random
from importlib.resources import files
from pathlib import Path

import pytest

from rpent_box.errors import BadOption, SimulatorError, UnknownName
from rpent_box_robotwin.language import Listed, Wording, instruction_for, sentences
from rpent_box_robotwin.plugin import RobotwinOptions
from rpent_box_robotwin.suites import SUITES

BLOCKS = {"{A}": "red block", "{B}": "green block", "{a}": "left", "{b}": "right"}
HAMMER = {"{A}": "020_hammer/base0", "{a}": "left"}
LINE = '{"task": "stack_blocks_two", "seed": 100000, "instruction": "stack them"}\n'


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    path = tmp_path / "instructions.jsonl"
    path.write_text(
        LINE + "\n" + LINE.replace("100000", "100007").replace("stack them", "Türme bauen")
    )
    return path


def test_a_listed_scene_has_its_sentence_whatever_is_in_it(listed: Path) -> None:
    found = sentences(RobotwinOptions(language=str(listed)))
    found.require("stack_blocks_two", 100_007)
    assert found.instruction("demo_clean", "stack_blocks_two", 100_000, {}) == "stack them"
    assert found.instruction("demo_randomized", "stack_blocks_two", 100_007, {}) == "Türme bauen"


def test_a_seed_that_is_not_listed_is_refused_with_those_that_are(listed: Path) -> None:
    with pytest.raises(UnknownName, match="scene seed 100001") as caught:
        Listed.read(listed).require("stack_blocks_two", 100_001)
    assert "100000, 100007" in caught.value.hint


def test_a_task_that_is_not_listed_is_refused_with_those_that_are(listed: Path) -> None:
    with pytest.raises(UnknownName) as caught:
        Listed.read(listed).require("turn_switch", 100_000)
    assert caught.value.hint == "Tasks listed: stack_blocks_two"


def test_a_long_list_is_not_repeated_whole(tmp_path: Path) -> None:
    path = tmp_path / "instructions.jsonl"
    path.write_text("".join(LINE.replace("100000", str(seed)) for seed in range(30)))
    with pytest.raises(UnknownName) as caught:
        Listed.read(path).require("stack_blocks_two", 30)
    assert caught.value.hint.endswith("18, 19 and 10 more")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("stack them", "malformed"),
        ('{"task": "stack_blocks_two", "seed": 1}', "missing required field `instruction`"),
        (LINE.replace("100000", "1.5"), "`int`"),
        (LINE.replace("100000", "-1"), ">= 0"),
        (LINE.replace("stack them", ""), "length >= 1"),
        (LINE.replace('"seed"', '"scene"'), "unknown field `scene`"),
        (LINE.replace("_two", "_nine"), "no task called stack_blocks_nine"),
    ],
)
def test_a_line_that_cannot_be_used_is_refused_with_its_number(
    tmp_path: Path, text: str, reason: str
) -> None:
    path = tmp_path / "instructions.jsonl"
    path.write_text(LINE.replace("100000", "7") + "\n" + text)
    with pytest.raises(BadOption, match=f"line 3.*{reason}"):
        Listed.read(path)


def test_bytes_that_are_no_text_are_refused_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "instructions.jsonl"
    path.write_bytes(LINE.replace("stack them", "T\u00fcrme").encode("latin-1"))
    with pytest.raises(BadOption, match="line 1"):
        Listed.read(path)


def test_two_sentences_for_one_scene_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "instructions.jsonl"
    path.write_text(LINE + LINE.replace("them", "those"))
    with pytest.raises(BadOption, match="line 2: .*seed 100000 has a sentence in line 1"):
        Listed.read(path)


def test_a_file_that_is_empty_or_not_there_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "instructions.jsonl"
    with pytest.raises(BadOption, match="No such file"):
        Listed.read(path)
    path.write_text("\n")
    with pytest.raises(BadOption, match="is empty"):
        Listed.read(path)


def test_a_pipe_is_refused_since_it_could_be_read_once_only(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadOption, match="pipe cannot be read: it is no file"):
        Listed.read(tmp_path / "pipe")


def test_a_sentence_of_blanks_is_none(tmp_path: Path) -> None:
    path = tmp_path / "listed.jsonl"
    path.write_text('{"task": "stack_blocks_two", "seed": 1, "instruction": "  "}\n')
    with pytest.raises(BadOption, match="line 1"):
        Listed.read(path)


def test_a_sentence_depends_on_suite_task_and_seed_alone() -> None:
    needs_runtime()
    drawn = sentences(RobotwinOptions())
    before = [
        drawn.instruction("demo_clean", "stack_blocks_two", seed, BLOCKS) for seed in range(20)
    ]
    random.seed(5)
    again = [
        drawn.instruction("demo_clean", "stack_blocks_two", seed, BLOCKS)
        for seed in reversed(range(20))
    ]
    assert before == again[::-1]
    assert len(set(before)) > 5
    other = [
        drawn.instruction("demo_randomized", "stack_blocks_two", seed, BLOCKS) for seed in range(20)
    ]
    assert before != other


def test_drawing_a_sentence_leaves_the_global_generators_alone() -> None:
    needs_runtime()
    random.seed(3)
    state = random.getstate()
    instruction_for("demo_clean", "beat_block_hammer", 100_000, HAMMER)
    assert random.getstate() == state


def test_the_sentence_of_a_known_scene_is_what_it_was() -> None:
    needs_runtime()
    assert instruction_for("demo_clean", "stack_blocks_two", 100_000, BLOCKS) == (
        "Place red block in the center, then stack green block on it."
    )


def test_the_order_of_facts_does_not_matter() -> None:
    needs_runtime()
    reversed_facts = dict(reversed(list(HAMMER.items())))
    for seed in range(10):
        assert instruction_for("demo_clean", "beat_block_hammer", seed, HAMMER) == instruction_for(
            "demo_clean", "beat_block_hammer", seed, reversed_facts
        )


@pytest.mark.parametrize("wording", ["seen", "unseen"])
def test_templates_and_words_for_objects_are_of_the_asked_kind(wording: Wording) -> None:
    needs_runtime()
    templates = stock_data("task_instruction/beat_block_hammer")[wording]
    words = stock_data("objects_description/020_hammer/base0")[wording]
    possible = {
        template.replace("{A}", f"the {word}").replace("{a}", "the left arm")
        for template in templates
        for word in words
    }
    drawn = {
        instruction_for("demo_clean", "beat_block_hammer", seed, HAMMER, wording)
        for seed in range(30)
    }
    assert drawn <= possible
    assert len(drawn) > 10


def test_facts_that_no_sentence_fits_are_an_error_and_not_the_tasks_name() -> None:
    needs_runtime()
    with pytest.raises(SimulatorError, match="fits its scene 7"):
        instruction_for("demo_clean", "beat_block_hammer", 7, {"{Z}": "thing"})


@pytest.mark.parametrize("wording", ["seen", "unseen"])
@pytest.mark.parametrize("task", SUITES[0].tasks)
def test_every_task_has_a_sentence_for_what_it_says_of_its_scene(
    task: str, wording: Wording
) -> None:
    needs_runtime()
    facts = {name: "left" if name.islower() else "thing" for name in facts_named_by(task)}
    text = instruction_for("demo_clean", task, 100_000, facts, wording)
    assert text
    assert "{" not in text


def facts_named_by(task: str) -> list[str]:
    """Return the placeholders in the code of the task's `get_info`, the optional ones left out."""
    tree = ast.parse(files("robotwin.envs").joinpath(f"{task}.py").read_text(encoding="utf-8"))
    (function,) = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == "get_info"
    )
    return [
        str(key.value)
        for node in ast.walk(function)
        if isinstance(node, ast.Dict)
        for key in node.keys
        if isinstance(key, ast.Constant)
    ]


def needs_runtime() -> None:
    pytest.importorskip("robotwin", reason="the RoboTwin runtime is not installed here")


def stock_data(name: str) -> dict[str, list[str]]:
    text = files("robotwin.description").joinpath(f"{name}.json").read_text(encoding="utf-8")
    data: dict[str, list[str]] = json.loads(text)
    return data
