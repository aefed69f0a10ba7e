// SPDX-License-Identifier: Apache-2.0
// Questions to the server. Each carries the token, which came behind the # of the printed address.

const TOKEN = "token";
/** A server tells something every second: after so long the line is dead, as a tunnel's may be. */
const SILENT_MS = 15000;
const given = new URLSearchParams(location.hash.slice(1)).get(TOKEN);
// It is kept for this tab and this port alone, and belongs into no screenshot.
if (given) sessionStorage.setItem(TOKEN, given);
if (location.hash) history.replaceState(null, "", location.pathname);
// The address of another evaluation on the same port, pasted into this tab, loads nothing by itself.
addEventListener("hashchange", () => location.reload());

/** Return the answer to `path`, or null when the server cannot be reached. */
export function ask(path) {
  const headers = { Authorization: `Bearer ${sessionStorage.getItem(TOKEN)}` };
  return fetch(path, { cache: "no-store", headers }).catch(() => null);
}

/** Yield every line of `answer` as a value, until it ends or the connection does. */
export async function* lines(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  const nothing = { done: true };
  let text = "";
  for (;;) {
    const silence = pause(SILENT_MS).then(() => nothing);
    const { value, done } = await Promise.race([reader.read().catch(() => nothing), silence]);
    if (done) break;
    const parts = (text + value).split("\n");
    text = parts.pop();
    for (const part of parts) yield JSON.parse(part);
  }
  reader.cancel().catch(() => {});
}

export const pause = (ms) => new Promise((go) => setTimeout(go, ms));
