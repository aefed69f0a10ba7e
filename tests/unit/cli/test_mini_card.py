# SPDX-License-Identifier: Apache-2.0
"""`rpent-box mini card`: tables of what was played, put into a card."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from fabricated_runs import META, WORKER, fabricate_evaluation, plan_of
from msgspec.structs import replace

from rpent_box.cli.mini_card import BEGIN, END, card_of, put_into
from rpent_box.errors import BadOption, OutputError

PLAN = plan_of({"libero_spatial": 2}, episodes=4)
WEIGHTS = META.provenance["weights_sha256"]
OUTCOMES = (
    *(("named", "named"), ("named", "none"), ("own", "own"), ("none", "none")),
    *(("both", "own"), ("other", "none"), ("named", "named"), ("named", "named")),
)


def attempts(folder: Path, *, weights: str = WEIGHTS) -> Path:
    folder.mkdir()
    lines = [
        {
            **{"suite": "libero_spatial", "task": number // 4, "says": 6, "instruction": "go"},
            **{"init_state": number % 4, "seed": 7, "model": f"mini-wam {weights}"},
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
    assert "| 0 | 6 | 4 | 2 | 1 | 0 | 1 | 1 | 1 |" in text
    assert "| 1 | 6 | 4 | 2 | 0 | 2 | 0 | 2 | 1 |" in text
    assert "| all |  | 8 | 4 | 1 | 2 | 1 | 3 | 2 |" in text
    assert "in 4 of 8 (95%: 21.5–78.5%)" in text


def test_one_folder_given_twice_counts_once(tmp_path: Path) -> None:
    folder = fabricate_evaluation(tmp_path, "spatial", plan=PLAN)
    assert card_of([tmp_path, folder]) == card_of([folder])


def test_scores_of_different_weights_are_never_in_one_card(tmp_path: Path) -> None:
    fabricate_evaluation(tmp_path, "spatial", plan=PLAN)
    attempts(tmp_path / "sentences", weights="77" * 32)
    with pytest.raises(BadOption, match=r"different weights: 5b5b.* in .*spatial, 7777"):
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
