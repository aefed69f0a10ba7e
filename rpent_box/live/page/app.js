// SPDX-License-Identifier: Apache-2.0
// Shows how an evaluation stands: told once a second by /events, pictures from /frames.

import { ask, lines, pause } from "./asking.js";
import { bars, bucketsOf, coarsened, duration, fillBar, h, number, percent, quantile, range, seconds, sparkline, tenths } from "./charts.js";
import { Views } from "./views.js";

const STATES = {
  resetting: "resetting", waiting: "waits for the model", acting: "acting",
  video: "writing video", replacing: "being replaced", idle: "idle",
};
const STAGES = {
  simulate: ["blue", "simulate"], render: ["teal", "render"], infer: ["violet", "infer"],
  encode: ["pink", "encode"], decode: ["green", "decode"], queue: ["amber", "queue"],
  transport: ["red", "transport"], other: ["grey", "other"],
};
const LOST_AFTER = 20;
const AGAIN_MS = 2000;
const LONG_S = 15;
const ENOUGH = 4;

const at = (id) => document.getElementById(id);
const views = new Views(at("views"));

async function follow() {
  for (let misses = 0; misses < LOST_AFTER; misses += 1) {
    const answer = await ask("/events");
    if (answer?.status === 403) return setStatus("lost", "open the address that rpent-box printed");
    if (answer?.ok) {
      for await (const picture of lines(answer)) {
        misses = 0;
        show(picture);
        if (picture.phase === "ended") return views.stop();
      }
    }
    setStatus("lost", "connection lost, trying again");
    await pause(AGAIN_MS);
  }
  setStatus("lost", "cannot be reached");
}

function setStatus(kind, text) {
  at("status").className = `pill ${kind}`;
  at("status").textContent = text;
}

function show(picture) {
  const ended = picture.phase === "ended";
  const title = picture.run || "rpent-box";
  at("title").textContent = title;
  at("title").title = title;
  document.title = ended ? `${picture.ended} · ${title}` : `${percentDone(picture)} · ${title}`;
  const parts = [picture.platform, picture.backend, picture.checkpoint, picture.launcher && `by ${picture.launcher}`];
  at("setup").textContent = parts.filter(Boolean).join(" · ") || "starting …";
  at("footer").textContent = picture.run_dir;
  if (ended) setStatus(picture.ended, picture.ended === "ended" ? "ended" : `ended: ${picture.ended}`);
  else setStatus(picture.phase, picture.phase);
  showTiles(picture);
  showSeats(picture);
  showTasks(picture);
  showStages(picture.stages_s);
  showMachines(picture.machines);
  showLists(picture);
}

const perMinute = (pace) => (pace < 100 ? pace.toPrecision(3) : number(pace));
/** Not 100% before all is played. */
const percentDone = ({ done, episodes }) => `${episodes ? Math.floor((100 * done) / episodes) : 0}%`;

function showTiles(picture) {
  const { episodes, done, successes, errors } = picture;
  const failures = done - successes;
  at("done").textContent = number(done);
  at("of").textContent = ` of ${number(episodes)}`;
  fillBar(at("progress"), episodes ? [
    { share: successes / episodes, color: "green", title: `${number(successes)} solved` },
    { share: failures / episodes, color: "amber", title: `${number(failures)} not solved` },
    { share: errors / episodes, color: "red", title: `${number(errors)} without a result` },
  ] : []);
  const notes = [`${number(successes)} solved`, `${number(failures)} not solved`];
  if (errors) notes.push(`${number(errors)} without a result`);
  if (picture.earlier) notes.push(`${number(picture.earlier)} from earlier sittings`);
  at("progress-note").textContent = notes.join(" · ");

  const rate = done ? successes / done : null;
  at("rate").textContent = rate === null ? "–" : tenths(rate);
  at("rate-range").replaceChildren(range(picture.low, picture.high, rate));
  at("rate-note").textContent = `95%: ${tenths(picture.low)} to ${tenths(picture.high)}`;

  const pace = picture.per_minute ?? picture.per_minute_overall;
  at("pace").textContent = pace === null ? "–" : perMinute(pace);
  // Of stretches in which one episode ends or none, a curve shows only that.
  const curve = coarsened(picture.curve, (done - picture.earlier) / ENOUGH);
  at("curve").replaceChildren(...(curve.length > 1 ? [sparkline(curve, "Episodes per minute, from the start until now")] : []));
  at("pace-note").textContent = picture.per_minute_overall === null
    ? "episodes, last 5 minutes" : `${perMinute(picture.per_minute_overall)} over all`;

  const ended = picture.phase === "ended";
  at("left-title").textContent = ended ? "Took" : "Left";
  at("left").textContent = ended ? duration(picture.elapsed_s) : picture.eta_s === null ? "–" : `~${duration(picture.eta_s)}`;
  at("elapsed").textContent = ended ? `${number(picture.steps)} steps` : `${duration(picture.elapsed_s)} so far`;

  const known = picture.machines.filter((machine) => machine.busy !== null);
  const mean = (key) => known.reduce((sum, machine) => sum + machine[key], 0) / (known.length || 1);
  at("busy").textContent = known.length ? percent(mean("busy")) : "–";
  fillBar(at("busy-bar"), known.length ? shares(mean("busy"), mean("gathering"), mean("idle")) : []);
  at("busy-note").textContent = known.length ? `idle ${percent(mean("idle"))}, last 30 s` : "nothing heard yet";
}

const shares = (busy, gathering, idle) => [
  { share: busy, color: "blue", title: `busy ${percent(busy)}` },
  { share: gathering, color: "amber", title: `gathering a batch ${percent(gathering)}` },
  { share: idle, color: "grey", title: `idle ${percent(idle)}` },
];

/** Keep one child of `parent` per item, in order; `make` makes what `fill` then fills. */
function keyed(parent, items, keyOf, make, fill) {
  const known = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  items.forEach((item, index) => {
    const key = keyOf(item);
    let child = known.get(key);
    if (!child) {
      child = make(item);
      child.dataset.key = key;
    }
    known.delete(key);
    if (parent.children[index] !== child) parent.insertBefore(child, parent.children[index] || null);
    fill(child, item);
  });
  for (const child of known.values()) child.remove();
}

function showSeats(picture) {
  const counts = {};
  for (const seat of picture.seats) counts[seat.state] = (counts[seat.state] || 0) + 1;
  at("seats-note").textContent = Object.entries(counts).map(([state, count]) => `${count} ${STATES[state]}`).join(" · ") || "none plays yet";
  keyed(at("seats"), picture.seats, (seat) => seat.name, makeSeat, fillSeat);
}

function makeSeat(seat) {
  return h("article", { class: "seat" },
    h("div", { class: "top" }, h("h3", {}, `Simulator ${seat.name}`), h("span", { class: "chip" })),
    h("div", { class: "what" }), h("div", { class: "bar", role: "img" }), h("div", { class: "note" }), h("div", { class: "views" }));
}

function fillSeat(card, seat) {
  const [top, what, bar, note, pictures] = card.children;
  top.lastChild.className = `chip ${seat.state}`;
  top.lastChild.textContent = STATES[seat.state];
  top.lastChild.title = seat.phase;
  const plays = seat.episode !== null;
  what.textContent = plays ? `${seat.suite} · task ${seat.task} · state ${seat.init_state} · seed ${seat.seed}` : seat.phase;
  what.title = what.textContent;
  fillBar(bar, plays && seat.max_steps ? [{ share: seat.steps / seat.max_steps, color: "blue", title: `step ${seat.steps} of ${seat.max_steps}` }] : []);
  const notes = plays ? [`step ${seat.steps} of ${seat.max_steps}`] : [];
  if (plays && seat.for_s > LONG_S) notes.push(`like this for ${duration(seat.for_s)}`);
  notes.push(`${seat.successes} / ${seat.played} solved`);
  if (seat.restarts) notes.push(`${seat.restarts} × replaced`);
  note.textContent = notes.join(" · ");
  views.fill(pictures, seat);
}

function showTasks(picture) {
  at("tasks-note").textContent = picture.tasks.length ? `${number(picture.tasks.length)}, with ${number(picture.episodes)} episodes` : "";
  keyed(at("tasks"), picture.tasks, (task) => `${task.suite}/${task.task}`, makeTask, fillTask);
}

function makeTask() {
  return h("tr", {},
    h("td", { class: "name" }, h("div"), h("div", { class: "note" })),
    h("td", { class: "played" }, h("span"), h("div", { class: "bar", role: "img" })),
    h("td", { class: "success" }, h("span"), h("div")),
    h("td", { class: "number", "data-unit": "errors" }), h("td", { class: "number", "data-unit": "steps" }));
}

function fillTask(row, task) {
  const facts = JSON.stringify(task);
  if (row.facts === facts) return;
  row.facts = facts;
  const [name, played, success, errors, steps] = row.children;
  const done = task.successes + task.failures;
  name.firstChild.textContent = task.name || `task ${task.task}`;
  name.firstChild.title = task.name;
  name.lastChild.textContent = `${task.suite} · ${task.task}`;
  played.firstChild.textContent = `${number(done)} of ${number(task.episodes)}`;
  fillBar(played.lastChild, task.episodes ? [
    { share: task.successes / task.episodes, color: "green", title: `${task.successes} solved` },
    { share: task.failures / task.episodes, color: "amber", title: `${task.failures} not solved` },
    { share: task.errors / task.episodes, color: "red", title: `${task.errors} without a result` },
  ] : []);
  const rate = done ? task.successes / done : null;
  success.firstChild.replaceChildren(rate === null ? "–" : tenths(rate), " ",
    h("span", { class: "soft" }, done ? `${tenths(task.low)} – ${tenths(task.high)}` : ""));
  success.lastChild.replaceWith(range(done ? task.low : 0, done ? task.high : 0, rate));
  errors.textContent = number(task.errors);
  errors.classList.toggle("bad", task.errors > 0);
  steps.textContent = done ? number(task.steps / done) : "–";
}

function showStages(stages) {
  const known = Object.entries(stages).filter(([, value]) => value > 0);
  const total = known.reduce((sum, [, value]) => sum + value, 0);
  if (!total) return at("stages").replaceChildren(h("p", { class: "empty" }, "No episode has ended yet."));
  const look = (name) => STAGES[name] || ["grey", name];
  const bar = h("div", { class: "bar tall", role: "img" });
  fillBar(bar, known.map(([name, value]) => ({ share: value / total, color: look(name)[0], title: `${look(name)[1]} ${percent(value / total)}` })));
  const legend = known.map(([name, value]) => {
    const mark = h("i");
    mark.style.background = `var(--${look(name)[0]})`;
    return h("div", {}, mark, h("span", {}, look(name)[1]), h("b", {}, percent(value / total)), h("small", {}, seconds(value)));
  });
  at("stages").replaceChildren(bar, h("div", { class: "legend" }, ...legend));
}

function showMachines(machines) {
  const told = machines.filter((machine) => machine.figures || machine.envs);
  if (!told.length) return at("machines").replaceChildren(h("p", { class: "panel empty" }, "Nothing was heard of a worker yet."));
  at("machines").replaceChildren(...told.map(machineCard));
}

function machineCard(machine) {
  const { figures } = machine;
  const facts = [`${machine.envs} simulators${machine.envs_why ? ` (${machine.envs_why})` : ""}`];
  if (figures) facts.push(`${number(figures.served)} predictions`, `batches of up to ${figures.max_batch}, waiting up to ${+figures.max_wait_ms.toPrecision(3)} ms${figures.tuned ? " (tuned)" : ""}`);
  if (figures && figures.refused) facts.push(`${number(figures.refused)} refused`);
  if (machine.lost) facts.push(`lost ${machine.lost} times`);
  const bar = h("div", { class: "bar tall", role: "img" });
  if (machine.busy !== null) fillBar(bar, shares(machine.busy, machine.gathering, machine.idle));
  const charts = h("div", { class: "charts" });
  if (figures) {
    charts.append(...latency("Inference", figures.infer_s, "violet"), ...latency("Queue", figures.queue_s, "amber"), ...batches(figures.batches));
  }
  return h("article", { class: "machine" },
    h("div", {}, h("h3", {}, machine.name || "This machine"), h("p", { class: "note" }, facts.join(" · ")), bar), charts);
}

function latency(name, histogram, color) {
  const buckets = histogram ? bucketsOf(histogram) : [];
  if (!buckets.length) return [];
  const [half, most, nearly] = [0.5, 0.9, 0.99].map((share) => seconds(quantile(histogram, share)));
  return [h("div", { class: "chart" }, h("h3", {}, name), h("p", {}, `p50 ${half} · p90 ${most} · p99 ${nearly}`), bars(buckets, { color, label: name }))];
}

function batches(counts) {
  const sizes = Object.entries(counts).map(([size, count]) => [Number(size), count]).sort((a, b) => a[0] - b[0]);
  if (!sizes.length) return [];
  const inferences = sizes.reduce((sum, [, count]) => sum + count, 0);
  const mean = sizes.reduce((sum, [size, count]) => sum + size * count, 0) / inferences;
  const items = sizes.map(([size, count]) => ({ label: String(size), count, title: `${size} at once: ${number(count)}` }));
  return [h("div", { class: "chart" }, h("h3", {}, "Batch size"), h("p", {}, `mean ${mean.toFixed(2)} · ${number(inferences)} inferences`), bars(items, { label: "Batch size" }))];
}

function showLists(picture) {
  keyed(at("latest"), picture.latest, (one) => String(one.episode), (one) => h("li", {},
    h("span", { class: `dot ${one.success ? "yes" : "no"}`, title: one.success ? "solved" : "not solved" }),
    h("span", { class: "grow" }, `${one.suite} ${one.task}, state ${one.init_state}, seed ${one.seed}`),
    h("span", { class: "soft" }, `${one.success ? "solved" : "not solved"} · ${one.steps} steps · ${seconds(one.wall_s)}${one.restarts ? ` · ${one.restarts} × begun again` : ""}`)), () => {});
  if (!picture.latest.length) at("latest").replaceChildren(h("li", { class: "empty" }, "None has ended yet."));

  const restarts = Object.entries(picture.restarts).filter(([, count]) => count).map(([why, count]) => `${count} ${why}`);
  const codes = Object.entries(picture.error_codes).map(([code, count]) => `${count} × ${code}`);
  at("happened-note").textContent = [...restarts, ...codes].join(" · ");
  at("happened").replaceChildren(...picture.happened.map((one) => h("li", {},
    h("time", { class: "soft", dateTime: one.at, title: one.at }, one.at.slice(11, 19)),
    h("span", { class: "grow" }, one.text))));
  if (!picture.happened.length) at("happened").replaceChildren(h("li", { class: "empty" }, "No restart, no error."));

  keyed(at("components"), picture.components, (one) => one.name, () => h("li", {}, h("b"), h("span", { class: "grow" })), (item, one) => {
    item.firstChild.textContent = one.name;
    item.lastChild.textContent = one.text;
    item.title = `for ${duration(one.for_s)}`;
  });
}

follow().catch((error) => {
  // What is on the screen would else look like how things are.
  setStatus("lost", "this page has failed: reload it");
  throw error;
});
