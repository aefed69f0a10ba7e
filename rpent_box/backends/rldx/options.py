# SPDX-License-Identifier: Apache-2.0
"""The options of an rldx worker."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from rpent_box.backends.patience import LONGEST_S
from rpent_box.errors import BadOption, UsageError
from rpent_box.transport.paths import tcp_address

HistoryFrom: TypeAlias = Literal["platform", "predictions"]
RtcMode: TypeAlias = Literal["none", "trained", "guided"]


class RldxOptions(Struct, frozen=True, kw_only=True):
    """Options of an rldx worker."""

    service: Annotated[
        str,
        Meta(
            description="a running RLDX server to borrow, tcp://HOST:PORT; "
            "empty: start one from the checkpoint"
        ),
    ] = ""
    token_file: Annotated[
        str,
        Meta(
            description="file with the token that a borrowed server asks for", extra={"path": True}
        ),
    ] = ""
    execute_steps: Annotated[
        int, Meta(ge=1, description="steps of each chunk that are executed before the next")
    ] = 8
    history: Annotated[
        HistoryFrom,
        Meta(
            description="where frames of earlier control steps come from: the platform, which then "
            "must offer them, or, as an approximation, the frames of earlier predictions"
        ),
    ] = "platform"
    rtc: Annotated[
        RtcMode,
        Meta(
            description="real-time chunking: how a chunk continues the one before; "
            "of a borrowed server: what it was started with"
        ),
    ] = "none"
    rtc_delay: Annotated[
        int, Meta(ge=0, description="steps of the old chunk that the new one must begin with")
    ] = 0
    memory: Annotated[
        bool, Meta(description="use the checkpoint's long-term memory, if it has one")
    ] = True
    embodiment: Annotated[
        Literal["GENERAL_EMBODIMENT", "ROBOCASA_PANDA_OMRON"],
        Meta(description="the checkpoint's head and statistics for this robot"),
    ] = "GENERAL_EMBODIMENT"
    hf_home: Annotated[
        str,
        Meta(
            description="the Hugging Face cache with the backbone's configuration and tokenizer "
            "(Qwen/Qwen3-VL-8B-Instruct); without it, the worker's own HF_HOME",
            extra={"path": True},
        ),
    ] = ""
    attention: Annotated[
        Literal["sdpa", "flash_attention_2"],
        Meta(description="the backbone's attention; flash_attention_2 needs flash-attn installed"),
    ] = "sdpa"
    compile: Annotated[
        Literal["none", "submodule", "fullgraph"],
        Meta(description="compile the model before it serves: slower start, faster answers"),
    ] = "none"
    seed: Annotated[
        int,
        Meta(
            ge=0,
            lt=2**31,
            description="seeds the noise, with the episode and chunk; only in a server of ours: "
            "a borrowed one draws its own",
        ),
    ] = 1
    timeout_s: Annotated[
        float, Meta(gt=0, le=LONGEST_S, description="how long the server may take for one answer")
    ] = 120.0
    start_timeout_s: Annotated[
        float,
        Meta(
            gt=0,
            le=LONGEST_S,
            description="how long a server of ours may take to load and answer once",
        ),
    ] = 1800.0


OF_OUR_OWN_SERVER = ("memory", "embodiment", "hf_home", "attention", "compile", "seed")
"""What only a server that we start can be told."""


def check_options(options: RldxOptions) -> RldxOptions:
    """Return `options`, or raise `BadOption` where two of them contradict each other."""
    if options.service:
        _check_borrowing(options)
    elif options.token_file:
        raise BadOption("--token-file is for a borrowed server; ours has no token")
    if (options.rtc == "none") != (options.rtc_delay == 0):
        raise BadOption(
            f"--rtc {options.rtc} and --rtc-delay {options.rtc_delay} contradict each other",
            hint="Give both, e.g. --rtc guided --rtc-delay 4, or neither.",
        )
    if options.rtc_delay > options.execute_steps:
        raise BadOption(
            f"--rtc-delay {options.rtc_delay} is more than --execute-steps {options.execute_steps}",
            hint="A chunk cannot begin with steps that a chunk earlier than the last has planned.",
        )
    if options.rtc == "guided" and options.compile == "fullgraph":
        raise BadOption(
            "--rtc guided needs gradients, which --compile fullgraph has not",
            hint="Use --compile submodule, or --rtc trained.",
        )
    return options


def _check_borrowing(options: RldxOptions) -> None:
    try:
        tcp_address(options.service)
    except UsageError as error:
        raise BadOption(
            f"--service {options.service} is no address; wanted tcp://HOST:PORT"
        ) from error
    default = RldxOptions()
    useless = [
        f"--{name.replace('_', '-')}"
        for name in OF_OUR_OWN_SERVER
        if getattr(options, name) != getattr(default, name)
    ]
    if useless:
        raise BadOption(
            f"a borrowed RLDX server cannot be told {', '.join(useless)}: it is running already",
            hint="Start it with what you want, or leave out --service and let us start one.",
        )
