// Follows the log: server-sent events read by `fetch`, which tells why it was refused. It connects again by itself, from
// the line it has come to, and lets go of its place among the few readers while the tab is hidden.

import { fault, route } from "./api.js";

const FIRST_RETRY_MS = 500;
const LAST_RETRY_MS = 10_000;
/** A comment comes each 15 s at least. */
const DEAD_MS = 40_000;

/** @typedef {{ seq: number, ts: number, level: string, source: string, msg: string, request_id: string | null }} Line */
/** @typedef {{ lost: number } | { restarted: true } | Line} Entry */
/** @typedef {Record<string, string | number>} Wanted which lines: level, source, text, request_id */

export class LogFeed {
  /**
   * @param {(entry: Entry) => void} take
   * @param {(words: string, isWell: boolean) => void} say how the connection stands
   */
  constructor(take, say) {
    this.take = take;
    this.say = say;
    /** @type {Wanted} */
    this.wanted = {};
    /** The newest line that has come. @type {number | null} */
    this.seq = null;
    this.failures = 0;
    this.timer = 0;
    this.stop = new AbortController();
    this.onHide = () => (document.hidden ? this.pause() : this.connect());
    document.addEventListener("visibilitychange", this.onHide);
  }

  /** Begins anew with the newest lines of these. @param {Wanted} wanted */
  open(wanted) {
    this.wanted = wanted;
    this.seq = null;
    this.failures = 0;
    this.connect();
  }

  close() {
    document.removeEventListener("visibilitychange", this.onHide);
    this.hang();
  }

  pause() {
    this.hang();
    this.say("Paused: the tab was hidden", true);
  }

  hang() {
    window.clearTimeout(this.timer);
    this.stop.abort();
  }

  connect() {
    this.hang();
    if (!document.hidden) void this.follow((this.stop = new AbortController()));
  }

  /** @param {AbortController} stop */
  async follow(stop) {
    const { signal } = stop;
    let words = "the server has closed it";
    try {
      const params = { ...this.wanted, follow: 1, since: this.seq };
      const response = await fetch(route("v1/dashboard/logs", params), { signal, cache: "no-store" });
      if (!response.ok || !response.body) throw await fault(response);
      this.say("Following", true);
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const dead = window.setTimeout(() => stop.abort("dead"), DEAD_MS);
        const piece = await reader.read().finally(() => window.clearTimeout(dead));
        if (piece.done) break;
        const blocks = (rest + piece.value).split("\n\n");
        rest = blocks.pop() ?? "";
        for (const block of blocks) this.event(block);
      }
    } catch (error) {
      if (signal.aborted && signal.reason !== "dead") return;
      words = error instanceof Error && error.name === "ApiFault" ? error.message : "the server cannot be reached";
    }
    if (signal.aborted && signal.reason !== "dead") return;
    const wait = Math.min(LAST_RETRY_MS, FIRST_RETRY_MS * 2 ** this.failures++);
    this.say(`Not connected: ${words}`, false);
    this.timer = window.setTimeout(() => this.connect(), wait);
  }

  /** @param {string} block */
  event(block) {
    /** @type {Record<string, string>} */
    const fields = {};
    for (const line of block.split("\n")) {
      const at = line.indexOf(": ");
      if (at > 0) fields[line.slice(0, at)] = line.slice(at + 2);
    }
    if (!fields["data"]) return;
    const data = JSON.parse(fields["data"]);
    this.failures = 0;
    if (fields["event"] === "gap") this.take({ lost: data.dropped });
    if (fields["event"] !== "log") return;
    if (this.seq !== null && data.seq <= this.seq) this.take({ restarted: true });
    this.seq = data.seq;
    this.take(data);
  }
}
