# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import http.client
import json
import logging
import re
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from live_browser import Answer, ask, token_of
from live_story import acting, begun, row

from rpent_box.errors import SocketBusy, UsageError
from rpent_box.live import app
from rpent_box.live.app import PAGE_FILES
from rpent_box.live.dashboard import serve_dashboard
from rpent_box.live.picture import Picture
from rpent_box.live.server import MOST_CONNECTIONS
from rpent_box.live.state import LiveState

SECRETS = ("/state.json", "/events", "/frames/0/primary", "/metrics", "/nowhere")


@pytest.fixture
def state() -> LiveState:
    state = LiveState()
    state.on_begin(begun())
    return state


@pytest.fixture
def url(state: LiveState) -> Iterator[str]:
    with serve_dashboard(state) as url:
        yield url


def port_of(url: str) -> int:
    return urlsplit(url).port or 0


def bearer(url: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token_of(url)}"}


def test_the_printed_address_opens_the_page_and_its_token_all_else(url: str) -> None:
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/#token=[\w-]{43}", url)
    for path in PAGE_FILES:
        assert ask(url, path).status == 200, path
        assert ask(url, path).body == ask(url, path, **bearer(url)).body
    assert ask(url, "/state.json", **bearer(url)).status == 200
    assert ask(url, "/metrics", **bearer(url)).status == 200


def test_no_cookie_is_set_since_browsers_share_them_among_ports(url: str) -> None:
    for path in (*PAGE_FILES, "/state.json", "/nowhere"):
        assert "set-cookie" not in ask(url, path, **bearer(url)).headers


@pytest.mark.parametrize("path", SECRETS)
def test_nothing_is_told_without_the_token(url: str, path: str) -> None:
    token = token_of(url)
    wrong = token[:-1] + ("A" if token[-1] != "A" else "B")
    tries: list[dict[str, str]] = [
        {},
        {"Cookie": f"token={token}"},
        {"Authorization": f"Bearer {wrong}"},
        {"Authorization": f"Basic {token}"},
        {"Authorization": "Bearer"},
        {"Authorization": token},
        {"Referer": url},
    ]
    for headers in tries:
        answer = ask(url, path, **headers)
        assert answer.status == 403
        assert b"token" in answer.body
        assert token.encode() not in answer.body
    assert ask(url, f"{path}?token={token}").status == 403, "addresses end up in too many places"


@pytest.mark.parametrize(
    "host",
    [
        "example.com",
        "example.com:{port}",
        "127.0.0.1.example.com",
        "localhost.example.com:{port}",
        "127.0.0.1:{port}.example.com",
        "127.0.0.1@example.com",
        "2130706433",
        "",
    ],
)
def test_another_host_name_is_refused_even_with_the_token(url: str, host: str) -> None:
    for path in ("/", "/state.json"):
        answer = ask(url, path, Host=host.format(port=port_of(url)), **bearer(url))
        assert answer.status == 403
        assert b"127.0.0.1" in answer.body


@pytest.mark.parametrize("host", ["localhost", "localhost:1234", "127.0.0.1:1234", "[::1]:1234"])
def test_this_machine_has_several_names_and_a_tunnel_any_port(url: str, host: str) -> None:
    assert ask(url, "/state.json", Host=host, **bearer(url)).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "HEAD", "TRACE", "PATCH"])
def test_there_is_nothing_to_change(url: str, method: str) -> None:
    # What a browser asks before it sends another site's page's header is refused, too.
    asks = {"Origin": "http://example.com", "Access_Control_Request_Headers": "authorization"}
    answer = ask(url, "/state.json", method=method, **asks, **bearer(url))
    assert answer.status == 405
    assert not any(name.startswith("access-control") for name in answer.headers)


@pytest.mark.parametrize("path", ["/", "/state.json", "/metrics", "/nowhere"])
def test_every_answer_forbids_foreign_scripts_frames_and_guesses(url: str, path: str) -> None:
    for answer in (ask(url, path), ask(url, path, **bearer(url))):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"
        assert "server" not in answer.headers
        assert not any(name.startswith("access-control") for name in answer.headers)


def test_the_page_has_no_inline_script_or_style_and_asks_nobody_else(url: str) -> None:
    for path in PAGE_FILES.keys() - {"/icon.svg"}:
        text = ask(url, path).body.decode()
        assert "://" not in text.replace("http://www.w3.org/2000/svg", "")
        assert "innerHTML" not in text
        if path == "/":
            assert "<style" not in text
            assert " style=" not in text
            assert text.count("<script") == text.count('src="/') - text.count("<img")


def test_every_file_of_the_page_is_served_and_every_import_is_one_of_them() -> None:
    folder = Path(app.__file__).parent / "page"
    assert {name for name, _ in PAGE_FILES.values()} == {path.name for path in folder.iterdir()}
    for script in folder.glob("*.js"):
        for name in re.findall(r'from "\./([^"]+)"', script.read_text()):
            assert f"/{name}" in PAGE_FILES


def test_only_this_machine_can_reach_it(url: str) -> None:
    wanted = f"{port_of(url):04X}"
    listening = []
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(name) as table:
            rows = [line.split() for line in table.readlines()[1:]]
        listening += [row[1] for row in rows if row[3] == "0A" and row[1].endswith(f":{wanted}")]
    assert listening == [f"0100007F:{wanted}"]


def test_how_it_stands_is_told_every_second_and_once_more_at_the_end(state: LiveState) -> None:
    told: list[bytes] = []
    with serve_dashboard(state) as url:
        line = http.client.HTTPConnection("127.0.0.1", port_of(url), timeout=10)
        line.request("GET", "/events", headers=bearer(url))
        answer = line.getresponse()
        assert answer.getheader("content-type", "").startswith("application/x-ndjson")

        def listen() -> None:
            while text := answer.readline():
                told.append(text)

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        state.on_progress("0", begun().jobs[0], acting())
        state.on_episode(row(begun().jobs[0]))
        time.sleep(1.2)
        state.end("complete")
        left_at = time.monotonic()
    closed_at = time.monotonic()
    listener.join(5)
    assert closed_at - left_at < 1.0
    pictures = [json.loads(text) for text in told]
    assert len(pictures) >= 3
    assert [one["phase"] for one in pictures[-2:]] == ["playing", "ended"]
    assert (pictures[-1]["ended"], pictures[-1]["done"]) == ("complete", 1)
    line.close()


def test_open_pages_and_idle_lines_do_not_hold_up_the_end(state: LiveState) -> None:
    lines = []
    with serve_dashboard(state) as url:
        for path in ("/events", "/events", "/state.json"):
            line = http.client.HTTPConnection("127.0.0.1", port_of(url), timeout=10)
            line.request("GET", path, headers=bearer(url))
            line.getresponse()
            lines.append(line)
        silent = socket.create_connection(("127.0.0.1", port_of(url)))
        began = time.monotonic()
    assert time.monotonic() - began < 1.5
    assert not [thread for thread in threading.enumerate() if thread.name == "dashboard"]
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port_of(url)), timeout=1)
    silent.close()
    for line in lines:
        line.close()


def test_a_page_that_takes_no_bytes_does_not_hold_up_the_end(state: LiveState) -> None:
    for number in range(1000):
        state.on_phase(f"simulator {number}", "x" * 400)
    with serve_dashboard(state) as url:
        full = socket.socket()
        full.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        full.connect(("127.0.0.1", port_of(url)))
        asks = (
            f"GET /state.json HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token_of(url)}"
        )
        for _ in range(20):
            full.sendall(f"{asks}\r\n\r\n".encode())
        time.sleep(0.5)
        began = time.monotonic()
    assert time.monotonic() - began < 1.0
    full.close()


def test_thousands_of_connections_leave_the_evaluation_its_descriptors(state: LiveState) -> None:
    def opened() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    lines = []
    with serve_dashboard(state) as url:
        before = opened()
        for _ in range(400):
            lines.append(socket.create_connection(("127.0.0.1", port_of(url))))
        deadline = time.monotonic() + 5
        while opened() - before - len(lines) > MOST_CONNECTIONS:
            assert time.monotonic() < deadline, opened() - before - len(lines)
            time.sleep(0.02)
        for line in lines:
            line.close()
        assert ask(url, "/state.json", **bearer(url)).status == 200


def test_lines_that_ask_for_nothing_are_closed_and_pages_are_not(
    state: LiveState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rpent_box.live.server.PATIENCE_S", 0.4)
    with serve_dashboard(state) as url:
        page = http.client.HTTPConnection("127.0.0.1", port_of(url), timeout=10)
        page.request("GET", "/events", headers=bearer(url))
        answer = page.getresponse()
        asking = http.client.HTTPConnection("127.0.0.1", port_of(url), timeout=10)
        silent, trickling, lasting = (
            socket.create_connection(("127.0.0.1", port_of(url)), timeout=5) for _ in range(3)
        )
        lasting.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999\r\n\r\n")
        ended = 0
        for _ in range(15):
            asking.request("GET", "/style.css")
            assert asking.getresponse().read()
            for line in (trickling, lasting):
                with contextlib.suppress(OSError):
                    line.sendall(b"x")
            time.sleep(0.1)
        for line in (silent, trickling, lasting):
            line.settimeout(0.2)
            with contextlib.suppress(ConnectionResetError):
                while line.recv(65536):
                    pass
            ended += 1
            line.close()
        assert ended == 3
        assert len([answer.readline() for _ in range(2)]) == 2, "a page stays"
        page.close()


def test_a_head_without_end_is_refused(url: str) -> None:
    with socket.create_connection(("127.0.0.1", port_of(url)), timeout=5) as line:
        line.sendall(b"GET / HTTP/1.1\r\n")
        with pytest.raises(ConnectionError):
            line.sendall(f"X: {'x' * 4096}\r\n".encode() * 10_000)
    assert ask(url, "/state.json", **bearer(url)).status == 200


def test_two_requests_in_one_are_two_and_an_unclear_one_is_none(url: str) -> None:
    for unclear in (
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Host: localhost\r\nHost: example.com",
    ):
        smuggled = f"GET /state.json HTTP/1.1\r\nHost: localhost\r\n{unclear}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", port_of(url)), timeout=5) as line:
            line.sendall(smuggled.encode())
            assert line.recv(12) in (b"HTTP/1.1 400", b"HTTP/1.1 403")


def test_an_evaluation_that_fails_ends_its_page_too(state: LiveState) -> None:
    with pytest.raises(KeyError), serve_dashboard(state):
        raise KeyError("the evaluation")
    assert state.picture().phase == "ended"


def test_a_port_that_is_taken_is_said_and_another_one_asked_for(state: LiveState) -> None:
    with serve_dashboard(state) as url, pytest.raises(SocketBusy, match="Address already in use"):
        serve_dashboard(LiveState(), port=port_of(url)).__enter__()


def test_nothing_of_a_request_is_logged(
    state: LiveState, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.DEBUG), serve_dashboard(state) as url:
        assert ask(url).status == 200
        assert ask(url, "/nowhere").status == 403
        token = token_of(url)
    written = capfd.readouterr()
    for text in (caplog.text, written.out, written.err):
        assert token not in text
        assert "/nowhere" not in text


def test_each_dashboard_has_a_token_of_its_own(state: LiveState) -> None:
    tokens = set()
    for _ in range(2):
        with serve_dashboard(state) as url:
            tokens.add(token_of(url))
    assert len(tokens) == 2
    assert all(len(token) >= 43 for token in tokens)


def test_what_is_not_installed_is_named_with_the_command(
    state: LiveState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "rpent_box.live.server", raising=False)
    with pytest.raises(UsageError, match="uvicorn") as caught:
        serve_dashboard(state).__enter__()
    assert "rpent-box[dashboard]" in caught.value.hint


def test_unknown_simulators_and_cameras_have_no_picture(url: str) -> None:
    def shot(path: str) -> Answer:
        return ask(url, path, **bearer(url))

    assert shot("/frames/0/primary").status == 204
    assert shot("/frames/node-1/3/primary?after=x").status == 204
    assert shot("/frames/..%2f..%2fetc/passwd").status == 204
    assert shot("/nowhere").status == 404


def test_what_nobody_would_send_is_answered_too(url: str) -> None:
    assert ask(url, "/?" + "&".join(["token=x"] * 50)).status == 200
    assert ask(url, "/state.json?token=%ff%00%f0").status == 403
    assert ask(url, "/state.json", Authorization="Bearer \xff\xfe").status == 403
    for after in ("9" * 5000, "-1", "\xb2", "1e9"):
        path = f"/frames/0/primary?after={quote(after)}"
        assert ask(url, path, **bearer(url)).status == 204


def test_an_answer_that_fails_is_logged_without_the_token(
    state: LiveState, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> Picture:
        raise RuntimeError("no picture today")

    with serve_dashboard(state) as url:
        monkeypatch.setattr(state, "picture", broken)
        assert ask(url, "/state.json", **bearer(url)).status == 500
        assert ask(url, "/metrics", **bearer(url)).status == 500
        token = token_of(url)
    assert "/state.json cannot be answered" in caplog.text
    assert "no picture today" in caplog.text
    assert token not in caplog.text
