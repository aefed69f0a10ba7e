# SPDX-License-Identifier: Apache-2.0
"""Runs in RLDX's own environment: writes a checkpoint's files with upstream's own code.

    python rldx_upstream_checkpoint.py DIR [FIELD=VALUE...]     fields of RLDXConfig

Everything but the weights, which are one tensor, and the vision-language processor, which would
have to be fetched.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import torch
from rldx.configs.data.robocasa365_config import robocasa365_panda_omron
from rldx.configs.model.rldx import RLDXConfig
from rldx.model.core import processing_rldx
from rldx_upstream_server import TAG, WIDTHS
from safetensors.torch import save_file


def statistics():
    return {
        TAG.value: {
            part: {
                name: {
                    **{low: [-1.0] * width for low in ("min", "q01")},
                    **{high: [1.0] * width for high in ("max", "q99")},
                    "mean": [0.0] * width,
                    "std": [1.0] * width,
                }
                for name, width in widths.items()
            }
            for part, widths in WIDTHS.items()
        }
    }


def main() -> None:
    folder = Path(sys.argv[1])
    fields = dict(word.split("=", 1) for word in sys.argv[2:])
    config = RLDXConfig(**{name: json.loads(value) for name, value in fields.items()})
    config.save_pretrained(folder)
    save_file({"weight": torch.zeros(2)}, folder / "model.safetensors")
    tokenizer = SimpleNamespace(padding_side="right")
    processing_rldx.build_processor = lambda *_, **__: SimpleNamespace(tokenizer=tokenizer)
    processor = processing_rldx.RLDXProcessor(
        modality_configs={TAG.value: robocasa365_panda_omron},
        statistics=statistics(),
        use_percentiles=config.use_percentiles,
        model_name=config.model_name,
    )
    processor.save_pretrained(folder / "processor")


if __name__ == "__main__":
    main()
