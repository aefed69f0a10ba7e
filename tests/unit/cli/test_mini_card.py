# SPDX-License-Identifier: Apache-2.0
"""`rpent-box mini card`: tables of what was played, put into a card."""

from __future__ import annotations

import hashlib
import re
import shutil
from pathlib import Path

import msgspec
import pytest
from fabricated_runs import META, WORKER, fabricate_evaluation, plan_of
from msgspec.structs import replace

from rpent_box.cli.mini_card import BEGIN, END, card_of, put_into
from rpent_box.cli.mini_exams import BLIND, PRO_PLATFORM, SUITES, VARIANTS
from rpent_box.errors import BadOption, OutputError

PLAN = plan_of({"libero_spatial": 2}, episodes=4)
WEIGHTS = META.provenance["weights_sha256"]
OUTCOMES = (
    *(("named", "named"), ("named", "none"), ("own", "own"), ("none", "none")),
    *(("both", "own"), ("other", "none"), ("named", "named"), ("named", "named")),
)


def attempts(
    folder: Path, *, weights: str = WEIGHTS, suite: str = "libero_spatial", seed: int = 7
) -> Path:
    folder.mkdir()
    lines = [
        {
            **{"suite": suite, "task": number // 4, "says": 6, "instruction": "go"},
            **{"init_state": number % 4, "seed": seed, "model": f"mini-wam {weights}"},
            **{"lifted": lifted, "reached": reached, "steps": 50},
        }
        for number, (lifted, reached) in enumerate(OUTCOMES)
    ]
    data = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
    (folder / "trials.jsonl").write_bytes(data)
    return folder


def test_everything_below_a_folder_is_in_the_card(tmp_path: Path) -> None:
    fabricate_evaluation(tmp_path, "spatial", plan=PLAN)
    fabricate_evaluation(tmp_path, "grey", plan=replace(PLAN, backend_arguments=("--see=grey",)))
    attempts(tmp_path / "sentences")
    text = card_of([tmp_path])
    assert f"weights {WEIGHTS[:12]}" in text
    assert "| libero_spatial | `--see=grey` |" in text
    assert (
        "whose thing stands in the scene too, from the recorded initial states (seeds 7):" in text
    )
    assert "one that is both | another" in text
    spatial = "| libero_spatial |"
    assert f"{spatial} 0 | 6 | go | 4 | 2 | 15.0–85.0% | 1 |  | 0 | 1 | 1 | 1 |" in text
    assert f"{spatial} 1 | 6 | go | 4 | 2 | 15.0–85.0% | 0 | 1 | 1 | 0 | 2 | 1 |" in text
    assert f"{spatial} all |  |  | 8 | 4 | 21.5–78.5% | 1 | 1 | 1 | 1 | 3 | 2 |" in text


def test_attempts_of_two_suites_are_told_apart(tmp_path: Path) -> None:
    fabricate_evaluation(tmp_path, "spatial", plan=PLAN)
    attempts(tmp_path / "a")
    attempts(tmp_path / "b", suite="libero_object")
    text = card_of([tmp_path])
    for suite in ("libero_spatial", "libero_object"):
        assert f"| {suite} | 0 | 6 | go | 4 |" in text
        assert f"| {suite} | all |  |  | 8 | 4 | 21.5–78.5% |" in text


def test_a_copy_is_never_counted(tmp_path: Path) -> None:
    scores = tmp_path / "scores"
    fabricate_evaluation(scores, "spatial", plan=PLAN)
    attempts(scores / "sentences")
    shutil.copytree(scores / "sentences", tmp_path / "backup")
    with pytest.raises(BadOption, match=r"scene 0 .* was played in .*sentences and in .*backup;"):
        card_of([scores, tmp_path / "backup"])
    shutil.copytree(scores / "spatial", tmp_path / "again")
    with pytest.raises(BadOption, match=r"libero_spatial 0, .* in .*spatial and in .*again;"):
        card_of([scores, tmp_path / "again"])


def test_further_seeds_are_further_attempts(tmp_path: Path) -> None:
    for seed in (7, 8):
        plan = plan_of({"libero_spatial": 2}, episodes=4, seeds=(seed,))
        fabricate_evaluation(tmp_path, f"spatial-{seed}", plan=plan)
        attempts(tmp_path / f"sentences-{seed}", seed=seed)
    text = card_of([tmp_path])
    assert re.findall(r"\| libero_spatial \| \d+ of (\d+) ", text) == ["16"]
    assert "| libero_spatial | all |  |  | 16 | 8 | 28.0–72.0% |" in text
    assert "(seeds 7–8):" in text


def test_everything_that_is_scored_is_readable_in_one_card(tmp_path: Path) -> None:
    """Three suites, grey frames, four variants, sentences of two suites."""
    for suite in SUITES:
        fabricate_evaluation(tmp_path, suite, plan=plan_of({suite: 10}, episodes=5))
    grey = replace(plan_of({"libero_spatial": 10}, episodes=2), backend_arguments=BLIND)
    fabricate_evaluation(tmp_path, "libero_spatial-grey", plan=grey)
    variants = [f"libero_spatial_{variant}" for variant in VARIANTS]
    for suite in variants:
        plan = replace(plan_of({suite: 10}, episodes=2), platform=PRO_PLATFORM)
        fabricate_evaluation(tmp_path, suite, plan=plan)
    for suite in ("libero_spatial", "libero_object"):
        attempts(tmp_path / f"{suite}-sentences", suite=suite)
    text = card_of([tmp_path])
    tables = [block.splitlines() for block in text.split("\n\n") if block.startswith("|")]
    suites, *by_task, sentences = [[cells(line) for line in lines] for lines in tables]
    names = [*SUITES, "libero_spatial", *variants]
    assert sorted(row[0] for row in suites[2:]) == sorted(names)
    assert [row[:2] for row in suites if row[1] == "`--see=grey`"] == [
        ["libero_spatial", "`--see=grey`"]
    ]
    for suite in SUITES:
        assert text.count(f"{suite}, by task:") == 1
    for rows in by_task:
        assert [row[0] for row in rows[2:]] == [*map(str, range(10)), "all"]
        assert all(row[1].startswith("pick up the") for row in rows[2:-1])
    (of_spatial,) = [rows[0] for rows in by_task if len(rows[0]) > 5]
    assert of_spatial[5:] == ["`--see=grey`", *sorted(variants)]
    assert [row[:2] for row in sentences[2:]] == [
        *(["libero_object", "0"], ["libero_object", "1"], ["libero_object", "all"]),
        *(["libero_spatial", "0"], ["libero_spatial", "1"], ["libero_spatial", "all"]),
    ]


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_one_folder_given_twice_counts_once(tmp_path: Path) -> None:
    folder = fabricate_evaluation(tmp_path, "spatial", plan=PLAN)
    assert card_of([tmp_path, folder]) == card_of([folder])


def test_scores_of_different_weights_are_never_in_one_card(tmp_path: Path) -> None:
    fabricate_evaluation(tmp_path, "spatial", plan=PLAN)
    attempts(tmp_path / "sentences", weights="77" * 32)
    with pytest.raises(
        BadOption,
        match=r"different weights: 5b5b.* in .*spatial; 7777.* for libero_spatial, scene 0",
    ):
        card_of([tmp_path])


def test_evaluations_of_different_weights_are_not_either(tmp_path: Path) -> None:
    fabricate_evaluation(tmp_path, "one", plan=PLAN)
    meta = replace(META, provenance={"weights_sha256": "77" * 32})
    fabricate_evaluation(tmp_path, "two", plan=PLAN, worker=replace(WORKER, meta=meta))
    with pytest.raises(BadOption, match="different weights"):
        card_of([tmp_path])


def test_a_folder_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="no evaluation in"):
        card_of([tmp_path])
    with pytest.raises(BadOption, match="there is no folder"):
        card_of([tmp_path / "nowhere"])


def test_the_tables_replace_what_stood_between_the_marks(tmp_path: Path) -> None:
    path = tmp_path / "CARD.md"
    path.write_text(f"# Card\n\n{BEGIN}\nold\n{END}\n\nThe end.\n")
    for text in ("| a |", "| b |"):
        put_into(path, text)
        assert path.read_text() == f"# Card\n\n{BEGIN}\n\n{text}\n\n{END}\n\nThe end.\n"


@pytest.mark.parametrize("text", ["# Card\n", f"{END} {BEGIN}\n", f"{BEGIN}\n"])
def test_a_card_without_a_place_for_tables_stays_as_it_is(tmp_path: Path, text: str) -> None:
    path = tmp_path / "CARD.md"
    path.write_text(text)
    with pytest.raises(OutputError, match="has no place for scores") as error:
        put_into(path, "| a |")
    assert BEGIN in error.value.hint
    assert path.read_text() == text


def test_the_shipped_card_holds_the_scores_of_the_shipped_weights() -> None:
    root = Path(__file__).parents[3]
    shipped = root / "rpent_box" / "backends" / "mini_wam"
    written = (shipped / "MODEL_CARD.md").read_text()
    _, _, rest = written.partition(f"{BEGIN}\n\n")
    tables, _, _ = rest.partition(f"\n\n{END}")
    assert tables == card_of([root / "docs" / "scores"])
    weights = hashlib.sha256((shipped / "weights" / "mini_wam.onnx").read_bytes()).hexdigest()
    assert f"weights {weights[:12]}" in tables
