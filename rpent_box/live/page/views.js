// SPDX-License-Identifier: Apache-2.0
// Camera views: asked for while they are on the screen, once a second, a few at a time.

import { ask, pause } from "./asking.js";
import { h } from "./charts.js";

const EVERY_MS = 1000;
const AT_ONCE = 3;
const WORDS = {
  network: "No camera view: its frames travel over the network, not through this machine’s memory.",
  elsewhere: "No camera view: its frames are in another machine’s memory.",
};

export class Views {
  /** `box` is the checkbox that turns them on. */
  constructor(box) {
    this.box = box;
    this.shown = new Set();
    this.stopped = false;
    this.observer = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) {
        if (isIntersecting) this.shown.add(target);
        else this.shown.delete(target);
      }
    });
    box.addEventListener("change", () => document.body.classList.toggle("blind", !box.checked));
    this.round();
  }

  /** Keep the last pictures and ask for no more. */
  stop() {
    this.stopped = true;
  }

  /** Put one picture per camera of `seat` into `parent`, or say why there is none. */
  fill(parent, seat) {
    const wanted = this.box.checked ? JSON.stringify([seat.view, seat.cameras]) : "";
    if (this.stopped || parent.dataset.wanted === wanted) return;
    // Between episodes and while one is replaced the last pictures stay.
    if (wanted && !seat.cameras.length && !WORDS[seat.view]) return;
    parent.dataset.wanted = wanted;
    for (const image of parent.querySelectorAll("img")) this.forget(image);
    parent.replaceChildren();
    if (!wanted) return;
    if (WORDS[seat.view]) parent.append(h("p", {}, WORDS[seat.view]));
    else parent.append(...seat.cameras.map((role) => this.view(seat.name, role)));
  }

  view(simulator, role) {
    const image = h("img", { alt: `what ${role} of simulator ${simulator} shows` });
    image.address = `/frames/${[...simulator.split("/"), role].map(encodeURIComponent).join("/")}`;
    image.number = 0;
    this.observer.observe(image);
    return h("figure", {}, image, h("figcaption", {}, role));
  }

  forget(image) {
    this.observer.unobserve(image);
    this.shown.delete(image);
  }

  async round() {
    while (!this.stopped) {
      const began = performance.now();
      const waiting = document.hidden || !this.box.checked ? [] : [...this.shown];
      const some = Array.from({ length: AT_ONCE }, async () => {
        while (waiting.length && !this.stopped) await this.refresh(waiting.shift());
      });
      await Promise.all(some);
      await pause(Math.max(100, EVERY_MS - (performance.now() - began)));
    }
  }

  async refresh(image) {
    const answer = await ask(`${image.address}?after=${image.number}`);
    // Nothing new, or no server; it may also go while it sends. The last picture stays.
    const picture = answer?.status === 200 ? await answer.blob().catch(() => null) : null;
    if (!picture) return;
    image.number = Number(answer.headers.get("X-Shot"));
    const address = URL.createObjectURL(picture);
    image.onload = image.onerror = () => URL.revokeObjectURL(address);
    image.src = address;
  }
}
