// The one connection of the page to the live view: a websocket, or server-sent events where none can be opened.
// Every event is a whole document, so a subscriber only ever needs the newest. It reconnects by itself.

import { fault, route } from "./api.js";
import { seconds } from "./format.js";

const SAMPLES = 300;
const FIRST_RETRY_MS = 500;
const LAST_RETRY_MS = 10_000;
/** Silence on an open connection before the page says so, at least; a server that ticks slowly gets three ticks. */
const QUIET_MS = 3_000;
/** Silence after which the connection is given up: the server pings and ticks far more often. */
const DEAD_MS = 20_000;
const RATE_OVER_MS = 5_000;

/** @typedef {"connecting" | "streaming" | "stale" | "reconnecting" | "paused"} Kind */
/** @typedef {{ kind: Kind, text: string, detail: string }} Link how the connection stands, in words */

export class Live {
  constructor() {
    /** The newest document. @type {Wire.Live | null} */
    this.latest = null;
    /** Samples of the last five minutes, one a second, oldest first. @type {Wire.Sample[]} */
    this.samples = [];
    /** When the newest document came, on the page's clock. */
    this.at = 0;
    /** @type {Link} */
    this.link = { kind: "connecting", text: "Connecting", detail: "" };
    /** @type {Set<(document: Wire.Live) => void>} */
    this.readers = new Set();
    /** @type {Set<(link: Link) => void>} */
    this.linkReaders = new Set();
    /** @type {number[]} */
    this.arrivals = [];
    /** Ends the present connection. @type {(() => void) | null} */
    this.hang = null;
    /** Counts connections, so that a late word of an old one is known as such. */
    this.round = 0;
    this.failures = 0;
    this.retryAt = 0;
    this.refusal = "";
    this.isOpen = false;
    this.timer = 0;
  }

  /** Opens the connection, and closes it while the tab is hidden. */
  start() {
    document.addEventListener("visibilitychange", () => (document.hidden ? this.pause() : this.connect()));
    window.addEventListener("online", () => this.isOpen || this.connect());
    window.setInterval(() => this.watch(), 500);
    if (document.hidden) this.pause();
    else this.connect();
  }

  /**
   * `read` gets each document as it comes, the newest at once where there is one. Returns what ends that.
   * @param {(document: Wire.Live) => void} read
   */
  subscribe(read) {
    this.readers.add(read);
    if (this.latest) read(this.latest);
    return () => void this.readers.delete(read);
  }

  /**
   * `read` gets how the connection stands, now and at each change.
   * @param {(link: Link) => void} read
   */
  onLink(read) {
    this.linkReaders.add(read);
    read(this.link);
    return () => void this.linkReaders.delete(read);
  }

  connect() {
    this.close();
    const round = ++this.round;
    if (!this.latest) this.say("connecting", "Connecting");
    const url = route("v1/dashboard/live");
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    /** @type {WebSocket} */
    let socket;
    try {
      socket = new WebSocket(url);
    } catch {
      void this.follow(round);
      return;
    }
    let opened = false;
    this.hang = () => socket.close();
    socket.onopen = () => {
      opened = true;
      this.opened(round);
    };
    socket.onmessage = (event) => this.take(round, event.data);
    socket.onclose = () => {
      if (round !== this.round) return;
      if (opened) this.lost();
      else void this.follow(round);
    };
  }

  /** Server-sent events, read by `fetch`: unlike a websocket or an EventSource it tells why it was refused. @param {number} round */
  async follow(round) {
    const stop = new AbortController();
    this.hang = () => stop.abort();
    try {
      const response = await fetch(route("v1/dashboard/live", { follow: 1 }), { signal: stop.signal, cache: "no-store" });
      if (!response.ok || !response.body) throw await fault(response);
      this.opened(round);
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
        const blocks = (rest + piece.value).split(/\r?\n\r?\n/);
        rest = blocks.pop() ?? "";
        for (const block of blocks) this.takeEvent(round, block);
      }
    } catch (error) {
      if (error instanceof Error && "status" in error && error.status) this.refusal = error.message;
    }
    if (round === this.round) this.lost();
  }

  /** @param {number} round @param {string} block */
  takeEvent(round, block) {
    let type = "";
    let data = "";
    for (const line of block.split(/\r?\n/)) {
      if (line.startsWith("event: ")) type = line.slice(7);
      else if (line.startsWith("data: ")) data += line.slice(6);
    }
    if (data) this.take(round, `{"type": ${JSON.stringify(type)}, "data": ${data}}`);
  }

  /** @param {number} round @param {string} frame */
  take(round, frame) {
    if (round !== this.round) return;
    const { type, data } = JSON.parse(frame);
    if (type !== "live") return; // after a gap the newest document comes anyway; after a bye the connection ends
    const next = /** @type {Wire.Live} */ (data);
    this.latest = next;
    this.at = performance.now();
    this.failures = 0;
    this.refusal = "";
    this.keep(next);
    this.arrivals.push(this.at);
    while ((this.arrivals[0] ?? this.at) < this.at - RATE_OVER_MS) this.arrivals.shift();
    this.watch();
    for (const read of this.readers) read(next);
  }

  /** @param {Wire.Live} next */
  keep(next) {
    if (next.history) this.samples = next.history.slice(-SAMPLES);
    const last = this.samples[this.samples.length - 1];
    if (next.sample && (!last || next.sample.t > last.t)) this.samples.push(next.sample);
    else if (next.sample && last && next.sample.t === last.t) this.samples[this.samples.length - 1] = next.sample;
    if (this.samples.length > SAMPLES) this.samples.splice(0, this.samples.length - SAMPLES);
  }

  /** @param {number} round */
  opened(round) {
    if (round !== this.round) return;
    this.isOpen = true;
    this.at = performance.now();
    this.arrivals = [];
  }

  lost() {
    this.close();
    const wait = Math.min(LAST_RETRY_MS, FIRST_RETRY_MS * 2 ** this.failures++) * (0.75 + Math.random() / 2);
    this.retryAt = performance.now() + wait;
    this.timer = window.setTimeout(() => this.connect(), wait);
    this.watch();
  }

  pause() {
    this.close();
    this.failures = 0;
    this.say("paused", "Paused", "The tab was hidden.");
  }

  close() {
    window.clearTimeout(this.timer);
    this.round += 1;
    this.isOpen = false;
    const hang = this.hang;
    this.hang = null;
    hang?.();
  }

  /** Says how the connection stands; looked at twice a second and at each document. */
  watch() {
    if (document.hidden) return;
    const now = performance.now();
    if (!this.isOpen) {
      if (!this.retryAt || (!this.failures && !this.latest)) return;
      const left = this.retryAt - now;
      const when = left > 0 ? `next try in ${seconds(Math.max(1000, left))}` : "trying now";
      this.say("reconnecting", `Connection lost, ${when}`, this.refusal);
      return;
    }
    const quiet = now - this.at;
    if (quiet > DEAD_MS) this.lost();
    else if (quiet > Math.max(QUIET_MS, 3000 * (this.latest?.interval_s ?? 1))) this.say("stale", `No update for ${seconds(quiet)}`);
    else if (this.arrivals.length) {
      const span = Math.max(1000, now - (this.arrivals[0] ?? now));
      this.say("streaming", `Live, ${Math.max(1, Math.round((this.arrivals.length / span) * 1000))}/s`);
    }
  }

  /** @param {Kind} kind @param {string} words @param {string} [detail] */
  say(kind, words, detail = "") {
    if (kind === this.link.kind && words === this.link.text && detail === this.link.detail) return;
    this.link = { kind, text: words, detail };
    for (const read of this.linkReaders) read(this.link);
  }
}
