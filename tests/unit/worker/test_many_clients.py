# SPDX-License-Identifier: Apache-2.0
from concurrent.futures import ThreadPoolExecutor

import pytest
from fake_models import STATEFUL, BatchingModel, observation
from msgspec.structs import replace
from running_service import LINKS, running

CLIENTS = 4
EPISODES = 5
CHUNKS = 10


@pytest.mark.parametrize("link", LINKS)
def test_four_clients_at_once_each_get_their_own_answers_in_order(link):
    model = BatchingModel(replace(STATEFUL, max_batch=CLIENTS))
    with running(model, link=link) as worker:
        clients = [worker.client(f"client-{number}") for number in range(CLIENTS)]
        with ThreadPoolExecutor(CLIENTS) as pool:
            players = [pool.submit(_play, client, n) for n, client in enumerate(clients)]
            played = [player.result(timeout=60.0) for player in players]
        health, figures = worker.health(), worker.figures()

    expected = [float(count) for _ in range(EPISODES) for count in range(1, CHUNKS + 1)]
    assert played == [expected] * CLIENTS
    assert figures.served == CLIENTS * EPISODES * CHUNKS
    assert (health.queued, health.in_flight, health.sessions) == (0, 0, CLIENTS)


def _play(client, number):
    counts = []
    for episode in range(EPISODES):
        client.reset()
        for chunk in range(CHUNKS):
            level = (50 * number + 10 * episode + chunk) % 250
            actions = client.predict(observation(level=level)).actions
            assert actions[0, 1] == level
            assert actions[0, 2] == level + 1
            counts.append(float(actions[0, 0]))
    return counts
