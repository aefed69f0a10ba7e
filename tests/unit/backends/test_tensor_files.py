# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import pickle
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from rpent_box.backends import tensor_files
from rpent_box.backends.tensor_files import (
    TensorEntry,
    read_safetensors_header,
    read_torch_file,
    require_names,
)
from rpent_box.errors import BadCheckpoint

STATE = {"mot": {"blocks.0.weight": [1, 2]}, "proprio_encoder": {}, "step": 3}

HEADER = {
    "__metadata__": {"format": "pt"},
    "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
    "b": {"dtype": "BF16", "shape": [4], "data_offsets": [24, 32]},
    "none": {"dtype": "F32", "shape": [0], "data_offsets": [32, 32]},
}


def safetensors(folder: Path, header: object = HEADER, *, data: int = 32) -> Path:
    encoded = json.dumps(header).encode()
    path = folder / "model.safetensors"
    path.write_bytes(len(encoded).to_bytes(8, "little") + encoded + bytes(data))
    return path


def zipped(folder: Path, state: object = STATE, *, name: str = "archive/data.pkl") -> Path:
    path = folder / "model.pt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(name, pickle.dumps(state, protocol=2))
        archive.writestr("archive/version", "3\n")
        archive.writestr("archive/data/0", bytes(4096))
    return path


def legacy(folder: Path) -> Path:
    path = folder / "old.pt"
    parts = [0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}, STATE, ["0"]]
    path.write_bytes(b"".join(pickle.dumps(part, protocol=2) for part in parts) + bytes(64))
    return path


def test_a_safetensors_file_tells_names_types_and_shapes(tmp_path: Path) -> None:
    header = read_safetensors_header(safetensors(tmp_path))
    assert header.tensors["a"] == TensorEntry(dtype="F32", shape=(2, 3))
    assert list(header.tensors) == ["a", "b", "none"]
    assert header.metadata == {"format": "pt"}


def test_a_safetensors_file_that_is_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole = safetensors(tmp_path).read_bytes()
    path = tmp_path / "cut.safetensors"
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(BadCheckpoint, match="cut|not a safetensors file"):
            read_safetensors_header(path)


def test_a_cut_file_says_how_much_is_there(tmp_path: Path) -> None:
    path = safetensors(tmp_path, data=31)
    size = path.stat().st_size
    with pytest.raises(BadCheckpoint, match=f"it has {size} of {size + 1} bytes") as caught:
        read_safetensors_header(path, role="expert weights")
    assert "the expert weights" in caught.value.message


def test_bytes_that_no_tensor_owns_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadCheckpoint, match="has 5 bytes more than its header tells"):
        read_safetensors_header(safetensors(tmp_path, data=37))


@pytest.mark.parametrize(
    "header",
    [
        [1, 2],
        {"a": {"dtype": "F32", "shape": [2]}},
        {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 32]}},
        {"a": {"dtype": "F32", "shape": [-8], "data_offsets": [0, 32]}},
        {"a": {"dtype": "F32", "shape": [8], "data_offsets": [32, 0]}},
        {"a": {"dtype": "F32", "shape": 8, "data_offsets": [0, 32]}},
        {"a": "F32"},
    ],
)
def test_a_header_that_contradicts_itself_is_refused(tmp_path: Path, header: object) -> None:
    with pytest.raises(BadCheckpoint, match="not a safetensors file"):
        read_safetensors_header(safetensors(tmp_path, header))


def test_an_unknown_type_is_left_to_the_framework(tmp_path: Path) -> None:
    header = {"a": {"dtype": "F4", "shape": [64], "data_offsets": [0, 32]}}
    assert read_safetensors_header(safetensors(tmp_path, header)).tensors["a"].dtype == "F4"


def test_another_kind_of_file_is_no_safetensors_file(tmp_path: Path) -> None:
    with pytest.raises(BadCheckpoint, match="not a safetensors file"):
        read_safetensors_header(zipped(tmp_path))


def test_a_torch_file_tells_its_names_at_every_depth(tmp_path: Path) -> None:
    found = read_torch_file(zipped(tmp_path))
    assert found.layout == "zip"
    assert found.names == {"mot", "blocks.0.weight", "proprio_encoder", "step"}


def test_a_torch_file_that_is_cut_anywhere_is_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path)
    whole = path.read_bytes()
    for size in [*range(0, len(whole), 97), len(whole) - 1]:
        path.write_bytes(whole[:size])
        with pytest.raises(BadCheckpoint):
            read_torch_file(path)


def test_a_torch_file_with_a_hole_is_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:2048] + whole[4096:])
    with pytest.raises(BadCheckpoint, match="cut or damaged"):
        read_torch_file(path)


def test_an_old_torch_file_tells_its_names_and_its_layout(tmp_path: Path) -> None:
    found = read_torch_file(legacy(tmp_path))
    assert found.layout == "legacy"
    assert found.names == {"mot", "blocks.0.weight", "proprio_encoder", "step"}


def test_an_old_torch_file_that_is_cut_within_its_names_is_refused(tmp_path: Path) -> None:
    path = legacy(tmp_path)
    path.write_bytes(path.read_bytes()[:90])
    with pytest.raises(BadCheckpoint, match="its names cannot be read"):
        read_torch_file(path)


def test_reading_names_executes_nothing(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, ...]:
            return (os.mkdir, (str(tmp_path / "sprung"),))

    assert read_torch_file(zipped(tmp_path, {"mot": Trap()})).names >= {"mot"}
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"PK\x05\x06" + bytes(18), b"text"])
def test_another_kind_of_file_is_no_torch_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.pt").write_bytes(content)
    with pytest.raises(BadCheckpoint):
        read_torch_file(tmp_path / "model.pt")


def test_a_zip_file_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadCheckpoint, match="was not written by torch.save"):
        read_torch_file(zipped(tmp_path, name="readme.txt"))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    for read in (read_torch_file, read_safetensors_header):
        with pytest.raises(BadCheckpoint, match="No such file"):
            read(tmp_path / "nowhere")


def test_weights_without_a_name_that_the_model_reads_are_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path)
    names = read_torch_file(path).names
    require_names(names, ("mot", "step"), path=path, role="weights")
    with pytest.raises(BadCheckpoint, match="has no vae and no tokenizer; its names are: blocks"):
        require_names(names, ("mot", "vae", "tokenizer"), path=path, role="weights")
    many = [f"layer.{number}" for number in range(9)]
    with pytest.raises(BadCheckpoint, match=r"no layer\.1 and no layer\.2 and 6 more; its names"):
        require_names(names, many, path=path, role="weights")


@pytest.mark.parametrize(
    ("places", "data"),
    [({"a": [0, 4], "b": [0, 4]}, 4), ({"a": [4, 8]}, 8), ({"a": [0, 4], "b": [8, 12]}, 12)],
    ids=["one upon the other", "a hole at the start", "a hole between"],
)
def test_tensors_that_do_not_follow_each_other_are_refused(
    tmp_path: Path, places: dict[str, list[int]], data: int
) -> None:
    header = {
        name: {"dtype": "F32", "shape": [1], "data_offsets": place}
        for name, place in places.items()
    }
    with pytest.raises(BadCheckpoint, match="the tensor before it ends at"):
        read_safetensors_header(safetensors(tmp_path, header, data=data))


@pytest.mark.parametrize(
    "header",
    [
        {"a": {"dtype": "F32", "shape": [-1, -8], "data_offsets": [0, 32]}},
        {"a": {"dtype": "F32", "shape": [8.0], "data_offsets": [0, 32]}},
        {"a": {"dtype": "F32", "shape": [8_000_000_000, "a"], "data_offsets": [0, 32]}},
        {"a": {"dtype": "F4", "shape": ["x"], "data_offsets": [0, 32]}},
        {"a": {"dtype": "F4", "shape": [1] * 65, "data_offsets": [0, 32]}},
        {"__metadata__": ["pt"], "a": {"dtype": "F32", "shape": [8], "data_offsets": [0, 32]}},
    ],
)
def test_a_header_of_other_types_is_refused(tmp_path: Path, header: object) -> None:
    with pytest.raises(BadCheckpoint, match="not a safetensors file"):
        read_safetensors_header(safetensors(tmp_path, header))


@pytest.mark.parametrize("raw", [b'{"a":' * 100_000, b"[" * 100_000, b'{"\xff": 1}', b'{"a": NaN}'])
def test_a_header_that_is_no_json_is_refused(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(len(raw).to_bytes(8, "little") + raw)
    with pytest.raises(BadCheckpoint, match="not a safetensors file"):
        read_safetensors_header(path)


@pytest.mark.parametrize("length", [2**63, 2**64 - 1, 0])
def test_a_header_of_no_possible_length_is_refused(tmp_path: Path, length: int) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(length.to_bytes(8, "little") + b"{}")
    with pytest.raises(BadCheckpoint, match="not a safetensors file"):
        read_safetensors_header(path)


def _patched(path: Path, place: int, value: int, width: int) -> None:
    """Change a number in the zip directory's first entry."""
    raw = bytearray(path.read_bytes())
    start = raw.index(b"PK\x01\x02") + place
    raw[start : start + width] = value.to_bytes(width, "little")
    path.write_bytes(raw)


def test_a_zip_file_that_unpacks_to_more_than_it_says_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(256 * 1024 * 1024))
    _patched(path, 24, 1000, 4)
    tracemalloc.start()
    with pytest.raises(BadCheckpoint, match="cut or damaged"):
        read_torch_file(path)
    assert tracemalloc.get_traced_memory()[1] < 16 * 1024 * 1024
    tracemalloc.stop()


def test_a_packing_that_has_no_bounds_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(STATE))
    with pytest.raises(BadCheckpoint, match="was not written by torch.save"):
        read_torch_file(path)


def test_a_zip_file_with_a_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path)
    _patched(path, 8, 0x800, 2)
    _patched(path, 46, 0xFF, 1)
    with pytest.raises(BadCheckpoint, match="cut or damaged"):
        read_torch_file(path)


def test_reading_names_takes_a_bounded_number_of_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = legacy(tmp_path)
    monkeypatch.setattr(tensor_files, "MOST_OPCODES", 60)
    assert "mot" in read_torch_file(path).names
    monkeypatch.setattr(tensor_files, "MOST_OPCODES", 20)
    with pytest.raises(BadCheckpoint, match="more than 20 steps"):
        read_torch_file(path)


@pytest.mark.parametrize(
    "opcodes",
    [
        b"\x8d" + (2**62).to_bytes(8, "little") + b"text.",
        b"\x8d" + (2**63).to_bytes(8, "little") + b"text.",
        b"\x8b\xff\xff\xff\xff.",
        b"I" + b"9" * 5000 + b"\n.",
        b"\xff.",
    ],
    ids=["more than memory", "more than an address", "less than none", "digits", "no opcode"],
)
def test_a_pickle_with_made_up_lengths_is_refused(tmp_path: Path, opcodes: bytes) -> None:
    path = tmp_path / "old.pt"
    path.write_bytes(pickle.dumps(1, protocol=2) * 3 + b"\x80\x04" + opcodes)
    with pytest.raises(BadCheckpoint, match="its names cannot be read"):
        read_torch_file(path)
