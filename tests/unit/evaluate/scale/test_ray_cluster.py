# SPDX-License-Identifier: Apache-2.0
"""What is reserved in a cluster, and which addresses are refused, without a cluster."""

import builtins
import os
import sys
import types

import pytest

from rpent_box.errors import LaunchError, UsageError
from rpent_box.evaluate.scale import ray_cluster
from rpent_box.evaluate.scale.ray_cluster import (
    RayCluster,
    RayMachine,
    bundles,
    import_ray,
    in_words,
)


def machine(name, cpus, gpus=0):
    return RayMachine(identifier=name, name=name, cpus=cpus, gpus=gpus)


HEAD, SMALL, LARGE, FAST = (
    machine("head", 0),
    machine("small", 4),
    machine("large", 64),
    machine("fast", 32, 8),
)


def test_each_machine_with_room_gets_a_box_of_its_own_size():
    found = bundles([HEAD, SMALL, LARGE, FAST], cpus=None, gpus=0, count=None)
    assert found == [{"CPU": 64}, {"CPU": 32}, {"CPU": 4}]


def test_a_box_takes_what_its_simulators_and_worker_need_and_no_more_than_there_is():
    found = bundles([HEAD, SMALL, LARGE], cpus=9, gpus=0, count=None)
    assert found == [{"CPU": 9}, {"CPU": 4}]


def test_a_worker_that_needs_a_gpu_goes_where_there_is_one():
    found = bundles([SMALL, LARGE, FAST], cpus=9, gpus=1, count=None)
    assert found == [{"CPU": 9, "GPU": 1}]
    assert in_words(found[0]) == "9 CPUs and 1 GPU"


def test_as_many_boxes_as_are_asked_for_also_for_machines_that_are_not_there_yet():
    assert bundles([SMALL, LARGE], cpus=9, gpus=0, count=1) == [{"CPU": 9}]
    assert bundles([SMALL], cpus=None, gpus=0, count=3) == [{"CPU": 4}] * 3
    assert bundles([HEAD], cpus=5, gpus=1, count=2) == [{"CPU": 5, "GPU": 1}] * 2


def test_a_cluster_without_room_is_refused_with_what_there_is():
    with pytest.raises(LaunchError, match=r"head \(0 CPUs, 0 GPUs\)") as caught:
        bundles([HEAD], cpus=None, gpus=0, count=None)
    assert "--ray-nodes" in caught.value.hint
    with pytest.raises(LaunchError, match=r"1 GPUs; there is: .*small \(4 CPUs, 0 GPUs\)"):
        bundles([HEAD, SMALL], cpus=2, gpus=1, count=None)


@pytest.mark.parametrize("address", ["ray://head:10001", "http://head:8265", "head", ":6379"])
def test_what_is_no_heads_address_is_refused_with_one_that_fits(address, monkeypatch):
    with pytest.raises(UsageError, match=f"^--ray {address} is not where") as caught:
        RayCluster(address)
    assert "HOST:PORT" in caught.value.hint
    # So it stands in a shell that submits jobs.
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(UsageError, match=f"^RAY_ADDRESS={address} is not where"):
        RayCluster("auto")


def test_without_ray_the_extra_is_named(monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **named):
        if name == "ray":
            raise ImportError("No module named 'ray'")
        return real(name, *rest, **named)

    monkeypatch.delitem(sys.modules, "ray", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UsageError, match="Ray, which is not installed") as caught:
        import_ray()
    assert "rpent-box[ray]" in caught.value.hint


@pytest.fixture
def environment(monkeypatch):
    """An environment of its own, without Ray's variables."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("RAY_")}
    monkeypatch.setattr(os, "environ", kept)
    return kept


def test_a_cluster_of_our_own_asks_for_a_new_token(monkeypatch, environment):
    monkeypatch.delitem(sys.modules, "ray", raising=False)
    monkeypatch.setattr(ray_cluster, "import_ray", lambda: None)
    tokens = set()
    for _ in range(2):
        RayCluster("auto")
        assert environment.pop("RAY_AUTH_MODE") == "token"
        tokens.add(environment.pop("RAY_AUTH_TOKEN"))
    assert len(tokens) == 2
    assert all(len(token) == 64 for token in tokens)
    # Of another one, whoever runs it decides.
    RayCluster("head:6379")
    environment["RAY_ADDRESS"] = "head:6379"
    RayCluster("auto")
    assert "RAY_AUTH_MODE" not in environment


def test_a_cluster_that_could_not_be_protected_is_not_started(monkeypatch, environment):
    monkeypatch.setitem(sys.modules, "ray", types.SimpleNamespace(is_initialized=lambda: False))
    with pytest.raises(UsageError, match="imported before it could be told to ask for a token"):
        RayCluster("auto")
