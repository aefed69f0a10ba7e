# SPDX-License-Identifier: Apache-2.0
"""vla-eval as its users run it: a model server, and its command-line runner in another process.

`python -m benchmarks.rollout.lines.vla_eval EPISODES FOLDER`, in vla-eval's environment. Everything
is as it comes: chunks are buffered by its server, frames go there as PNG at each step, steps are
recorded in SQLite.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from vla_eval import api
from vla_eval.model_servers import serve
from vla_eval.model_servers.base import SessionContext
from vla_eval.model_servers.predict import PredictModelServer

from benchmarks.rollout.work import CHUNK, SEED, STEPS, SUITE, Episode, actions, input_hash

BENCHMARK = "benchmarks.rollout.lines.vla_eval_libero:SeededLibero"


class ReplayServer(PredictModelServer):
    """Its interface for models, replaying fixed actions."""

    def __init__(self, traffic: Traffic) -> None:
        super().__init__(chunk_size=CHUNK)
        self._traffic = traffic
        self._actions = actions()
        self._seen: list[str] = []
        self._played = 0

    def get_observation_params(self) -> dict[str, Any]:
        return {"send_wrist_image": True, "send_state": True}

    def predict(self, obs: dict[str, Any], ctx: SessionContext) -> dict[str, Any]:
        # It turns frames by half a turn; so does this.
        frames = (obs["images"][name][::-1, ::-1] for name in ("agentview", "wrist"))
        state = obs["states"]
        self._seen.append(input_hash(*frames, state[:3], state[6:8]))
        return {"actions": self._actions[ctx.step : ctx.step + CHUNK]}

    async def on_episode_end(self, result: dict[str, Any], ctx: SessionContext) -> None:
        await super().on_episode_end(result, ctx)
        if not result:
            return  # the connection ended
        seen, self._seen = self._seen, []
        Episode(
            init_state=self._played,
            steps=result["steps"],
            seen=seen,
            socket_bytes=self._traffic.take(),
        ).tell()
        self._played += 1


class Traffic:
    """Counts what goes through the server's websocket."""

    def __init__(self) -> None:
        self._bytes = 0
        pack, unpack = serve.pack_message, serve.unpack_message

        def counted_pack(message: Any) -> bytes:  # noqa: ANN401
            data = pack(message)
            self._bytes += len(data)
            return data

        def counted_unpack(data: bytes) -> Any:  # noqa: ANN401
            self._bytes += len(data)
            return unpack(data)

        serve.pack_message, serve.unpack_message = counted_pack, counted_unpack

    def take(self) -> int:
        """Return the bytes since the last call."""
        taken, self._bytes = self._bytes, 0
        return taken


def main() -> int:
    episodes, folder = int(sys.argv[1]), Path(sys.argv[2])
    config = folder / "config.yaml"  # JSON is YAML
    config.write_text(
        json.dumps(
            {
                "output_dir": str(folder / "results"),
                "benchmarks": [
                    {
                        "benchmark": BENCHMARK,
                        "episodes_per_task": episodes,
                        "max_tasks": 1,
                        "max_steps": STEPS,
                        "params": {"suite": SUITE, "seed": SEED},
                    }
                ],
            }
        )
    )
    with api.serve_background(ReplayServer(Traffic())) as server:
        words = ["-m", "vla_eval.cli.main", "run", "--config", str(config), "--no-docker"]
        words += ["--server-url", server.url, "--render", "cpu"]
        return subprocess.run(
            [sys.executable, *words], stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
