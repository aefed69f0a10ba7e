// SPDX-License-Identifier: Apache-2.0
// Small drawings, made of elements: no text becomes markup.

const SVG = "http://www.w3.org/2000/svg";
const WIDEST_BAR = 60;

/** Return an element with properties and children; text children are only ever text. */
export function h(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "class") element.className = value;
    else if (key in element) element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

function svg(name, attributes, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/** Fill `element` with coloured parts; each is {share 0..1, color, title}. */
export function fillBar(element, parts) {
  while (element.children.length > parts.length) element.lastChild.remove();
  while (element.children.length < parts.length) element.append(h("i"));
  parts.forEach((part, index) => {
    const piece = element.children[index];
    piece.style.width = `${100 * Math.max(0, Math.min(1, part.share))}%`;
    piece.style.background = `var(--${part.color})`;
    piece.title = part.title || "";
  });
  element.setAttribute("aria-label", parts.map((part) => part.title).filter(Boolean).join(", "));
}

/** Return a rate with its interval on a track from 0 to 1. */
export function range(low, high, rate) {
  const band = h("i");
  band.style.left = `${100 * low}%`;
  band.style.width = `${100 * (high - low)}%`;
  const track = h("div", { class: "range", title: `${tenths(low)} to ${tenths(high)}` }, band);
  if (rate !== null) {
    const mark = h("b");
    mark.style.left = `${100 * rate}%`;
    track.append(mark);
  }
  return track;
}

/** Return `values` averaged over neighbours until there are at most `most` of them. */
export function coarsened(values, most) {
  const size = Math.max(1, Math.ceil(values.length / Math.max(2, most)));
  const groups = [];
  for (let start = 0; start + size <= values.length; start += size) {
    groups.push(values.slice(start, start + size).reduce((sum, value) => sum + value, 0) / size);
  }
  return groups;
}

/** Return a curve of values, drawn from left to right. */
export function sparkline(values, title) {
  const width = 200;
  const height = 22;
  const most = Math.max(...values, 1e-9);
  const step = values.length > 1 ? width / (values.length - 1) : 0;
  const points = values.map((value, index) => [index * step, height - 2 - (value / most) * (height - 4)]);
  const line = points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ");
  return svg(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, height, preserveAspectRatio: "none", role: "img", "aria-label": title },
    svg("title", {}, title),
    svg("polygon", { points: `0,${height} ${line} ${width},${height}`, fill: "var(--blue)", opacity: 0.14 }),
    svg("polyline", {
      points: line, fill: "none", stroke: "var(--blue)", "stroke-width": 1.8,
      "stroke-linejoin": "round", "vector-effect": "non-scaling-stroke",
    }),
  );
}

/** Return bars: each is {label, count, title}; labels are thinned so that they fit. */
export function bars(items, { color = "blue", label = "" } = {}) {
  const width = 300;
  const height = 92;
  const floor = height - 16;
  const most = Math.max(...items.map((item) => item.count), 1);
  const step = Math.min(width / items.length, WIDEST_BAR);
  const every = Math.ceil(items.length / 6);
  const pieces = items.flatMap((item, index) => {
    const tall = item.count ? Math.max(2, (item.count / most) * (floor - 4)) : 0;
    const x = index * step + Math.min(2, step * 0.1);
    const bar = svg(
      "rect",
      { x, y: floor - tall, width: Math.max(1, step - 2 * Math.min(2, step * 0.1)), height: tall, rx: 2, fill: `var(--${color})` },
      svg("title", {}, item.title),
    );
    if (index % every) return [bar];
    return [bar, svg("text", { x: index * step + step / 2, y: height - 3, "text-anchor": "middle" }, item.label)];
  });
  return svg(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label },
    svg("line", { x1: 0, x2: width, y1: floor + 0.5, y2: floor + 0.5, stroke: "var(--line)" }),
    ...pieces,
  );
}

/** Return a histogram's bars {label, count, title} without the empty ones at both ends. */
export function bucketsOf(histogram) {
  const { bounds, counts } = histogram;
  const first = counts.findIndex((count) => count > 0);
  if (first < 0) return [];
  const last = counts.length - 1 - [...counts].reverse().findIndex((count) => count > 0);
  return counts.slice(first, last + 1).map((count, index) => {
    const at = first + index;
    const over = at >= bounds.length;
    const edge = seconds(over ? bounds[bounds.length - 1] : bounds[at]);
    return { label: over ? `>${edge}` : edge, count, title: `${over ? "more than" : "up to"} ${edge}: ${number(count)}` };
  });
}

/** Return the value that `share` of a histogram's values lie below, or null. */
export function quantile(histogram, share) {
  const total = histogram.counts.reduce((sum, count) => sum + count, 0);
  if (!total) return null;
  let below = 0;
  let lower = 0;
  for (const [index, bound] of histogram.bounds.entries()) {
    const here = histogram.counts[index];
    if (here && below + here >= share * total) return lower + ((bound - lower) * (share * total - below)) / here;
    below += here;
    lower = bound;
  }
  return histogram.bounds[histogram.bounds.length - 1];
}

/** Return a rate of success, with as many digits as on the terminal and in the report. */
export const tenths = (rate) => `${(100 * rate).toFixed(1)}%`;

export function percent(share) {
  const value = 100 * share;
  return `${value > 0 && value < 10 ? value.toFixed(1) : Math.round(value)}%`;
}

export function number(value) {
  return Math.round(value).toLocaleString("en");
}

/** Return a short time: 0.8 ms, 120 ms, 3.2 s. */
export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 0.001) return `${+(1000 * value).toPrecision(1)} ms`;
  if (value < 1) return `${+(1000 * value).toPrecision(3)} ms`;
  return value < 60 ? `${+value.toPrecision(3)} s` : duration(value);
}

/** Return a long time: 45 s, 12 min, 3 h 05 min, 2 d 4 h. */
export function duration(value) {
  const whole = Math.round(value);
  if (whole < 60) return `${whole} s`;
  const minutes = Math.round(whole / 60);
  if (whole < 600) return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s`;
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return `${hours} h ${String(minutes % 60).padStart(2, "0")} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}
