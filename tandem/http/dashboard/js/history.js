// Half an hour of figures, kept by the page itself from what the live view sends, whichever view is open (OBS-083).

const EVERY_S = 10;
const KEPT_S = 1800;

/**
 * @typedef {object} Moment
 * @property {number} x seconds since 1970
 * @property {number | null} decode tokens a second; null where the page was not connected
 * @property {number | null} prefill
 * @property {number | null} running
 * @property {number | null} waiting
 * @property {number | null} memory bytes of the process
 */

export class History {
  /** @param {import("./live.js").Live} live */
  constructor(live) {
    /** @type {Moment[]} */
    this.moments = [];
    /** @type {Set<() => void>} */
    this.readers = new Set();
    live.subscribe((document) => this.take(document));
  }

  /** `read` is called when there is more. @param {() => void} read */
  subscribe(read) {
    this.readers.add(read);
    return () => void this.readers.delete(read);
  }

  /** @param {Wire.Live} document */
  take(document) {
    const x = Date.parse(document.generated_at) / 1000;
    const last = this.moments[this.moments.length - 1];
    if (last && x - last.x < EVERY_S) return;
    if (last && x - last.x > 3 * EVERY_S) this.moments.push({ x: last.x + 1, ...NOTHING }); // a gap in the lines
    const { counts, engine, now } = document;
    const memory = engine.memory?.rss_bytes ?? null;
    const running = counts.in_flight - counts.queued;
    this.moments.push({ x, decode: now.decode_tps, prefill: now.prefill_tps, running, waiting: counts.queued, memory });
    while ((this.moments[0]?.x ?? x) < x - KEPT_S) this.moments.shift();
    for (const read of this.readers) read();
  }
}

const NOTHING = { decode: null, prefill: null, running: null, waiting: null, memory: null };
