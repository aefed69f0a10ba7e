# SPDX-License-Identifier: Apache-2.0
"""What happens to the network on its way into a file. Needs PyTorch and onnx."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'rpent-box[train]'")
pytest.importorskip("onnx", reason="needs onnx: pip install 'rpent-box[train]'")
pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'rpent-box[train]'")
pytest.importorskip("av", reason="needs av: pip install 'rpent-box[train]'")

import onnx
import torch

from rpent_box.backends.mini_wam import export as exporting
from rpent_box.backends.mini_wam.deploy import LEVELS, deployed, rounded, to_codes
from rpent_box.backends.mini_wam.manifest import FUTURE_FILE, WEIGHTS_FILE
from rpent_box.backends.mini_wam.network import Around, MiniWamNetwork


@pytest.fixture(scope="module")
def network() -> MiniWamNetwork:
    """Return a random network whose norms have seen something."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    made = MiniWamNetwork()
    with torch.no_grad():
        made.trunk.tune.weight.normal_(std=0.05)
        for eye in made.eyes:
            for norm in (eye.stem_norm, eye.mix_norm):
                norm.running_mean.normal_(std=0.3)
                norm.running_var.uniform_(0.5, 2)
    return made.eval()


def think(network: MiniWamNetwork, frames: torch.Tensor) -> torch.Tensor:
    rows = len(frames)
    generator = torch.Generator().manual_seed(1)
    proprio = torch.randn(rows, 9, generator=generator)
    words = torch.nn.functional.normalize(torch.randn(rows, 512, generator=generator), dim=1)
    with torch.no_grad():
        return network.think(frames, proprio, words)


def test_rounding_what_is_rounded_changes_nothing() -> None:
    weight = torch.randn(300, 70, generator=torch.Generator().manual_seed(0))
    codes, scales = to_codes(weight)
    assert codes.abs().amax(1).tolist() == [LEVELS] * 300
    again, same = to_codes(codes * scales)
    assert torch.equal(again, codes)
    assert torch.equal(same, scales)


def test_a_row_of_zeros_is_rounded_to_zeros() -> None:
    codes, scales = to_codes(torch.zeros(2, 3))
    assert not (codes * scales).any()


def test_rounding_moves_no_weight_by_more_than_half_a_level(network: MiniWamNetwork) -> None:
    weight, after = network.trunk.enter.weight, rounded(network).trunk.enter.weight
    step = weight.abs().amax(1, keepdim=True) / LEVELS
    assert not torch.equal(weight, after)
    assert bool(((weight - after).abs() <= 0.51 * step).all())


def test_fusing_leaves_the_rounded_networks_answer(network: MiniWamNetwork) -> None:
    frames = torch.rand(2, 2, 3, 128, 128, generator=torch.Generator().manual_seed(2))
    whole = (frames * 255).round()
    wanted = think(rounded(network), whole / 255)
    assert (think(deployed(network), whole) - wanted).abs().max() < 1e-4


def test_rounding_hardly_moves_the_answer(network: MiniWamNetwork) -> None:
    frames = torch.rand(4, 2, 3, 128, 128, generator=torch.Generator().manual_seed(3))
    exact, near = think(network, frames), think(rounded(network), frames)
    assert (exact - near).square().mean().sqrt() < 0.05 * exact.std()


def test_surroundings_are_the_same_with_all_pairs_of_channels() -> None:
    layer = Around(8, 5)
    features = torch.randn(2, 8, 16, 16)
    assert torch.allclose(layer.train()(features), layer.eval()(features), atol=1e-5)


def test_files_are_small_and_hold_rounded_weights_as_bytes(
    network: MiniWamNetwork, tmp_path: Path
) -> None:
    size = 0
    for graph in exporting.graphs(network):
        path = tmp_path / graph.file
        exporting.write_onnx(graph, path, statistics_sha256="none")
        assert exporting.compare(graph, path) < 1e-4
        size += path.stat().st_size
        large = [
            stored
            for stored in onnx.load(str(path)).graph.initializer
            if len(stored.dims) == 2 and stored.dims[0] * stored.dims[1] > 1e5
        ]
        assert large
        assert {stored.data_type for stored in large} == {onnx.TensorProto.INT8}
    assert {WEIGHTS_FILE, FUTURE_FILE} == {path.name for path in tmp_path.iterdir()}
    assert size < 10e6
