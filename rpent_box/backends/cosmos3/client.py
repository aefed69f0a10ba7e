# SPDX-License-Identifier: Apache-2.0
"""Questions to an SGLang service over HTTP, each with one deadline from the first byte to the last.

The service is borrowed: nothing here starts it, and nothing stops it.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import httpx
from msgspec import Struct

from rpent_box.backends.cosmos3.answer import shown
from rpent_box.errors import DeadlineExceeded, PredictionFailed, RpentBoxError

GENERATIONS = "/v1/actions/generations"
LARGEST_ANSWER = 16 * 2**20
"""Bytes. Sixteen environments' answers take about 60 KB."""

ResultT = TypeVar("ResultT")


class Reply(Struct, frozen=True, kw_only=True):
    """One HTTP answer, whole."""

    status: int
    body: bytes


class SGLangClient:
    """Asks one service. Used from one thread at a time; close() may be called twice."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        # A loop of its own: with it a deadline covers the whole exchange, where httpx's timeouts
        # cover each read, so that a service that drips would never be late.
        self._loop = asyncio.new_event_loop()
        self._http = httpx.AsyncClient(
            # A proxy of this machine has no business between a worker and its service.
            trust_env=False,
            timeout=None,
            # A new connection costs 0.3 ms, and none that is kept can be closed under a request.
            limits=httpx.Limits(max_keepalive_connections=0),
            headers={"accept": "application/json", "accept-encoding": "identity"},
        )

    def get(self, path: str, *, deadline: float) -> Reply:
        """Return the answer to `path`, of any status; `deadline` is on `time.monotonic()`.

        Raises `PredictionFailed` when nobody answers or the line is cut, and `DeadlineExceeded`.
        """
        return self._run(self._ask("GET", path, None, deadline))

    def generate(self, bodies: Sequence[bytes], *, at_once: int, deadline: float) -> list[bytes]:
        """Send every one of `bodies`, at most `at_once` under way, and return their answers.

        Raises as `get` does, and `PredictionFailed` for a refusal, in the service's own words. The
        first that fails ends the others.
        """
        return self._run(self._generate_all(bodies, asyncio.Semaphore(at_once), deadline))

    def close(self) -> None:
        """Hang up; the service lives on."""
        if self._loop.is_closed():
            return
        try:
            self._run(self._http.aclose())
        finally:
            self._loop.close()

    def _run(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        return self._loop.run_until_complete(work)

    async def _generate_all(
        self, bodies: Sequence[bytes], free: asyncio.Semaphore, deadline: float
    ) -> list[bytes]:
        tasks = [asyncio.ensure_future(self._generate(body, free, deadline)) for body in bodies]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _generate(self, body: bytes, free: asyncio.Semaphore, deadline: float) -> bytes:
        async with free:
            reply = await self._ask("POST", GENERATIONS, body, deadline)
        if reply.status != 200:
            raise self._refusal(reply)
        return reply.body

    async def _ask(self, method: str, path: str, body: bytes | None, deadline: float) -> Reply:
        left_s = deadline - time.monotonic()
        try:
            return await asyncio.wait_for(self._exchange(method, path, body), max(left_s, 0.0))
        except (asyncio.TimeoutError, TimeoutError) as error:
            raise DeadlineExceeded(
                f"the SGLang service at {self.endpoint} did not answer {path} within "
                f"{max(left_s, 0.0):.3g} s",
                hint="A first prediction compiles kernels. Allow more: --http-timeout-s SECONDS",
            ) from error
        except httpx.ConnectError as error:
            raise PredictionFailed(
                f"no SGLang service answers at {self.endpoint}: {_told(error)}",
                hint="Start it, or name where it runs: --sglang-endpoint http://HOST:PORT. How to "
                "start one: images/sglang/README.md",
            ) from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise PredictionFailed(
                f"the SGLang service at {self.endpoint} broke off its answer to {path}: "
                f"{_told(error)}",
                hint="Its log says why; a process that runs out of GPU memory ends like this.",
            ) from error

    async def _exchange(self, method: str, path: str, body: bytes | None) -> Reply:
        headers = {"content-type": "application/json"} if body is not None else {}
        url = f"{self.endpoint}{path}"
        async with self._http.stream(method, url, content=body, headers=headers) as response:
            pieces, size = [], 0
            async for piece in response.aiter_raw():
                size += len(piece)
                if size > LARGEST_ANSWER:
                    raise self._too_large(path)
                pieces.append(piece)
            return Reply(status=response.status_code, body=b"".join(pieces))

    def _too_large(self, path: str) -> RpentBoxError:
        return PredictionFailed(
            f"the answer of {self.endpoint} to {path} is larger than {LARGEST_ANSWER} bytes; "
            "wanted a few kilobytes of actions",
            hint="Is that address SGLang's?",
        )

    def _refusal(self, reply: Reply) -> PredictionFailed:
        said = told_by_service(reply.body)
        who = f"the SGLang service at {self.endpoint}"
        if reply.status == 400:
            return PredictionFailed(
                f"{who} refused the request: {said}",
                hint="Its settings and this worker's must fit: see rpent-box serve cosmos3 --help",
                detail=shown(reply.body),
            )
        if reply.status == 404:
            return PredictionFailed(
                f"{who} does not know {GENERATIONS}: {said}",
                hint="Wanted: sglang[diffusion] 0.5.19 serving a Cosmos3 checkpoint.",
                detail=shown(reply.body),
            )
        return PredictionFailed(
            f"{who} failed with status {reply.status}: {said}",
            hint="Its log has the reason.",
            detail=shown(reply.body),
        )


def told_by_service(body: bytes) -> str:
    """Return the `detail` of a refusal, or the beginning of whatever came instead."""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        said = None
    detail = said.get("detail") if isinstance(said, dict) else None
    if detail is None:
        return shown(body).strip() or "it gave no reason"
    return detail if isinstance(detail, str) else json.dumps(detail)


def _told(error: Exception) -> str:
    return str(error) or type(error).__name__
