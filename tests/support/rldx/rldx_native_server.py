# SPDX-License-Identifier: Apache-2.0
"""A server that speaks RLDX's protocol to the letter, around a model that only counts.

What it says and keeps is what rldx/policy/server_client.py and rldx/policy/session_registry.py
have: one REP socket, errors as {"error": …}, memory by session id, a reset without ids that clears
everyone. It serialises with `msgpack`, as upstream does, and shares no code with our client.
"""

from __future__ import annotations

import io
import threading
import time
from contextlib import contextmanager

import msgpack
import numpy as np
import zmq

HORIZON = 16
VIDEO = ("robot0_agentview_left", "robot0_agentview_right", "robot0_eye_in_hand")
KITCHEN_VIDEO = ("left_view", "right_view", "wrist_view")
STATE = {
    "end_effector_position_relative": 3,
    "end_effector_rotation_relative": 4,
    "gripper_qpos": 2,
    "base_position": 3,
    "base_rotation": 4,
}
ACTION = {
    "end_effector_position": 3,
    "end_effector_rotation": 3,
    "gripper_close": 1,
    "base_motion": 4,
    "control_mode": 1,
}
LANGUAGE = "annotation.human.task_description"
PATIENCE_S = 60.0


def modality(*, deltas=(0,), video=VIDEO, horizon=HORIZON, instruction=LANGUAGE, **changed):
    """Return the modalities of a RoboCasa checkpoint, as the server keeps them."""
    found = {
        "video": (list(deltas), list(video)),
        "state": ([0], list(STATE)),
        "action": (list(range(horizon)), list(ACTION)),
        "language": ([0], [instruction]),
    }
    return found | changed


class CountingModel:
    """Answers with how often a session was seen since its reset; shows what it was given.

    Step r of the chunk: column 0 is that count, 1 the mean of the first camera's newest frame, 2 of
    its oldest one, 3 the gripper's first state, 4 r, 5 the length of the prefix that came along.
    """

    def __init__(self, modalities, *, strict=True):
        self.modalities = modalities
        self.strict = strict
        self.memory = {}
        self.seen = []
        """(session, observation, options), in order."""

    def get_action(self, observation, options=None):
        if self.strict:
            self._check(observation)
        options = options or {}
        sessions = options.get("session_ids") or ["default"]
        if len(sessions) != 1:
            raise ValueError(f"session_ids length {len(sessions)} != batch size 1")
        (session,) = sessions
        if (options.get("reset_memory") or [False])[0]:
            self.memory.pop(session, None)
        self.memory[session] = self.memory.get(session, 0) + 1
        self.seen.append((session, observation, options))
        return self._answer(observation, options, self.memory[session]), {}

    def reset(self, options=None):
        if options is None or "session_ids" not in options:
            cleared = list(self.memory)
            self.memory.clear()
            return {"cleared_sessions": cleared}
        touched = [name for name in options["session_ids"] if self.memory.pop(name, None)]
        return {"cleared_sessions": touched}

    def _answer(self, observation, options, count):
        horizon = len(self.modalities["action"][0])
        first = observation["video"][self.modalities["video"][1][0]][0]
        parts = {name: np.zeros((1, horizon, width), np.float32) for name, width in ACTION.items()}
        parts["end_effector_position"][0, :, 0] = count
        parts["end_effector_position"][0, :, 1] = first[-1].mean()
        parts["end_effector_position"][0, :, 2] = first[0].mean()
        parts["end_effector_rotation"][0, :, 0] = observation["state"]["gripper_qpos"][0, 0, 0]
        parts["end_effector_rotation"][0, :, 1] = np.arange(horizon)
        parts["end_effector_rotation"][0, :, 2] = options.get("rtc_prefix_len") or 0
        parts["gripper_close"][0, ::2, 0] = 0.5
        parts["gripper_close"][0, 1::2, 0] = 0.49
        parts["control_mode"][0, :, 0] = 1.0
        return {name: parts[name] for name in self.modalities["action"][1]}

    def _check(self, observation):
        for part in ("video", "state", "language"):
            if part not in observation:
                raise AssertionError(f"Observation must contain a '{part}' key")
        deltas, cameras = self.modalities["video"]
        for name in cameras:
            frames = observation["video"][name]
            assert frames.dtype == np.uint8, name
            assert frames.shape[:2] == (1, len(deltas)), f"{name}: {frames.shape}"
            assert frames.shape[-1] == 3, name
        for name in self.modalities["state"][1]:
            vector = observation["state"][name]
            assert vector.dtype == np.float32, name
            assert vector.shape == (1, 1, STATE[name]), f"{name}: {vector.shape}"
            assert np.isfinite(vector).all(), name
        (key,) = self.modalities["language"][1]
        texts = observation["language"][key]
        assert isinstance(texts, list), texts
        assert all(isinstance(text, str) for [text] in texts), texts


class Wrapped:
    """The same with flat names, as `--use-sim-policy-wrapper` makes it."""

    def __init__(self, model):
        self.model = model
        self.modalities = model.modalities

    def get_action(self, observation, options=None):
        nested = {"video": {}, "state": {}, "language": {}}
        for part in ("video", "state"):
            for name in self.modalities[part][1]:
                if f"{part}.{name}" not in observation:
                    raise AssertionError(f"'{part}.{name}' must be in observation")
                nested[part][name] = observation[f"{part}.{name}"]
        (key,) = self.modalities["language"][1]
        nested["language"][key] = [[str(text)] for text in observation[key]]
        action, info = self.model.get_action(nested, options)
        return {f"action.{name}": part for name, part in action.items()}, info

    def reset(self, options=None):
        return self.model.reset(options)


class NativeServer:
    """Serves one policy in a thread. A test sets `misbehave` to what the next answer shall be."""

    def __init__(self, policy, *, token=None, port=0):
        self.policy = policy
        self.token = token
        self.requests = []
        """Every request, decoded, in order."""
        self.misbehave = None
        """Called with (endpoint, the sound answer); returns bytes to send instead, or None to be
        silent."""
        self.busy = threading.Event()
        """Set while `misbehave` is being called."""
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.REP)
        self._socket.linger = 0
        self._socket.bind(f"tcp://127.0.0.1:{port or '*'}")
        self.endpoint = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def port(self):
        return int(self.endpoint.rpartition(":")[2])

    def asked(self, endpoint):
        return [request for request in self.requests if request.get("endpoint") == endpoint]

    def close(self):
        self._stop.set()
        self._thread.join(PATIENCE_S)
        self._context.destroy(linger=0)

    def _run(self):
        while not self._stop.is_set():
            if not self._socket.poll(20):
                continue
            request = msgpack.unpackb(self._socket.recv(), object_hook=_read_array)
            self.requests.append(request)
            answer = self._answer(request)
            if self.misbehave is None:
                self._socket.send(pack(answer))
                continue
            self.busy.set()
            sent = self.misbehave(request.get("endpoint"), answer)
            self.busy.clear()
            if sent is None:
                self._start_over()
            else:
                self._socket.send(sent)

    def _start_over(self):
        """Never answer what was asked. A REP socket must, so there is a new one at this place."""
        self._socket.close(linger=0)
        while not self._stop.is_set():
            self._socket = self._context.socket(zmq.REP)
            self._socket.linger = 0
            try:
                self._socket.bind(self.endpoint)
                return
            except zmq.ZMQError:
                self._socket.close(linger=0)
                time.sleep(0.01)

    def _answer(self, request):
        if self.token is not None and request.get("api_token") != self.token:
            return {"error": "Unauthorized: Invalid API token"}
        handlers = {
            "ping": lambda: {"status": "ok", "message": "Server is running"},
            "get_action": self.policy.get_action,
            "reset": self.policy.reset,
            "get_modality_config": self._modality_config,
        }
        endpoint = request.get("endpoint", "get_action")
        try:
            if endpoint not in handlers:
                raise ValueError(f"Unknown endpoint: {endpoint}")
            return handlers[endpoint](**request.get("data", {}))
        except Exception as error:  # noqa: BLE001 - upstream answers with any error's text
            return {"error": str(error)}

    def _modality_config(self):
        return {
            name: {
                "__ModalityConfig_class__": True,
                "as_json": {
                    "delta_indices": deltas,
                    "modality_keys": keys,
                    "sin_cos_embedding_keys": None,
                    "mean_std_embedding_keys": None,
                    "action_configs": None,
                },
            }
            for name, (deltas, keys) in self.policy.modalities.items()
        }


@contextmanager
def native_server(*, wrapped=False, token=None, port=0, strict=True, **modalities):
    """Serve a counting model; `server.model` is it."""
    model = CountingModel(modality(**modalities), strict=strict)
    server = NativeServer(Wrapped(model) if wrapped else model, token=token, port=port)
    server.model = model
    try:
        yield server
    finally:
        server.close()


def pack(answer):
    """Return an answer as upstream writes it."""
    return msgpack.packb(answer, default=_write_array)


def _write_array(value):
    if isinstance(value, np.ndarray):
        file = io.BytesIO()
        np.save(file, value, allow_pickle=False)
        return {"__ndarray_class__": True, "as_npy": file.getvalue()}
    return value


def _read_array(value):
    if "__ndarray_class__" in value:
        return np.load(io.BytesIO(value["as_npy"]), allow_pickle=False)
    return value
