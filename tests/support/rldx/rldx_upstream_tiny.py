# SPDX-License-Identifier: Apache-2.0
"""Runs in RLDX's own environment: the whole model, real code and tiny random weights, on a CPU.

    python rldx_upstream_tiny.py make DIR [memory]     write a checkpoint and its backbone's files
    python rldx_upstream_tiny.py --model-path DIR …    serve it; upstream's own command line

Nothing of RLDX is replaced but one thing: its runtime computes in bfloat16 on `cuda` alone, and
here does so on `cpu`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from rldx.configs.data.robocasa365_config import robocasa365_panda_omron
from rldx.configs.model.rldx import RLDXConfig
from rldx.model.core.processing_rldx import RLDXProcessor
from rldx.model.core.rldx import RLDX
from rldx_upstream_checkpoint import statistics
from rldx_upstream_server import TAG
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    Qwen2TokenizerFast,
    Qwen2VLImageProcessorFast,
    Qwen3VLConfig,
    Qwen3VLProcessor,
    Qwen3VLVideoProcessor,
)

from rpent_box.backends.rldx import seeded_server

WIDTH = 32
VOCABULARY = 151936
FIRST_SPECIAL = 151643
"""Where Qwen's special tokens begin; the model looks for 151652, the start of an image."""
SPECIAL = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>",
    "<|box_start|>", "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>",
    "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>",
)  # fmt: skip
CHAT = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% for part in message.content %}{% if part.type == 'image' %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part.text }}{% endif %}{% endfor %}"
    "<|im_end|>\n{% endfor %}"
)


def make(folder: Path, *, use_memory: bool) -> None:
    torch.manual_seed(0)
    backbone = folder / "backbone"
    make_backbone(backbone)
    config = RLDXConfig(
        model_name=str(backbone),
        backbone_embedding_dim=WIDTH,
        select_layer=5,
        hidden_size=WIDTH,
        input_embedding_dim=WIDTH,
        max_state_dim=32,
        max_action_dim=16,
        n_cog_tokens=4,
        max_num_embodiments=2,
        tune_top_llm_layers=0,
        state_dropout_prob=0.0,
        use_memory=use_memory,
        memory_stride=8,
        video_length=2,
        diffusion_model_cfg={
            "attention_head_dim": 8,
            "num_attention_heads": 4,
            "depth_multi_stream": 1,
            "depth_single_stream": 1,
            "output_dim": WIDTH,
            "action_model_max_seq_len": 64,
        },
        memory_cfg={
            "hidden_size": WIDTH,
            "intermediate_size": 2 * WIDTH,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "num_key_value_heads": 2,
        },
    )
    model = RLDX(config, transformers_loading_kwargs={"skip_pretrained_weights": True})
    if use_memory:
        # As they are first drawn they change nothing that bfloat16 could show.
        for weight in model.memory.parameters():
            torch.nn.init.normal_(weight, std=1.0)
    model.to(torch.bfloat16).save_pretrained(folder)
    robocasa365_panda_omron["video"].delta_indices = [-2, 0]
    processor = RLDXProcessor(
        modality_configs={TAG.value: robocasa365_panda_omron},
        statistics=statistics(),
        use_percentiles=True,
        model_name=str(backbone),
        model_type="vtc_qwen3_vl",
        max_state_dim=32,
        max_action_dim=16,
        embodiment_id_mapping={TAG.value: 0},
    )
    processor.save_pretrained(folder / "processor")


def make_backbone(folder: Path) -> None:
    """Write a tokenizer of single bytes and a Qwen3-VL of six layers, as configuration only."""
    tokenizer = make_tokenizer()
    Qwen3VLProcessor(
        image_processor=Qwen2VLImageProcessorFast(
            patch_size=16, temporal_patch_size=2, merge_size=2, min_pixels=1, max_pixels=1 << 20
        ),
        tokenizer=tokenizer,
        video_processor=Qwen3VLVideoProcessor(patch_size=16),
        chat_template=CHAT,
    ).save_pretrained(folder)
    Qwen3VLConfig(
        text_config={
            "vocab_size": VOCABULARY,
            "hidden_size": WIDTH,
            "intermediate_size": 2 * WIDTH,
            "num_hidden_layers": 6,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "head_dim": 16,
            "rope_scaling": {
                "rope_type": "default",
                "mrope_section": [2, 3, 3],
                "mrope_interleaved": True,
            },
        },
        vision_config={
            "depth": 3,
            "hidden_size": WIDTH,
            "intermediate_size": 2 * WIDTH,
            "num_heads": 2,
            "out_hidden_size": WIDTH,
            "deepstack_visual_indexes": [0, 1],
            "patch_size": 16,
            "num_position_embeddings": 256,
        },
        image_token_id=tokenizer.convert_tokens_to_ids("<|image_pad|>"),
        video_token_id=tokenizer.convert_tokens_to_ids("<|video_pad|>"),
        vision_start_token_id=tokenizer.convert_tokens_to_ids("<|vision_start|>"),
        vision_end_token_id=tokenizer.convert_tokens_to_ids("<|vision_end|>"),
    ).save_pretrained(folder)


def make_tokenizer() -> Qwen2TokenizerFast:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = [*letters, *(f"<unused {place}>" for place in range(len(letters), FIRST_SPECIAL))]
    plain = Tokenizer(models.BPE(vocab={word: i for i, word in enumerate(words)}, merges=[]))
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    plain.decoder = decoders.ByteLevel()
    plain.add_special_tokens(list(SPECIAL))
    return Qwen2TokenizerFast(
        tokenizer_object=plain,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=list(SPECIAL[1:]),
        chat_template=CHAT,
    )


class OnCpu(torch.autocast):
    """What upstream asks for on `cuda`, on this device."""

    def __init__(self, device_type, dtype=None, **more):
        super().__init__("cpu", dtype=dtype, **more)


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1] == "make":
        make(Path(sys.argv[2]), use_memory="memory" in sys.argv[3:])
    else:
        torch.autocast = OnCpu
        seeded_server.main()
