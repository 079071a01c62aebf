// The watch: how each session's work comes along, asked again every five seconds (MON-132).

import { ApiFault, getJson } from "../api.js";
import { clear, h, text } from "../dom.js";
import { NONE, count, seconds } from "../format.js";
import { note, table } from "../panel.js";
import { orNone, sessionLink } from "../sessions.js";

/** @typedef {any} Json */
/** @typedef {import("../dom.js").Child} Child */

const EVERY_MS = 5000;
const HEAD = ["Session", "Gates", "Compaction", "Progress", "Client", "Push"];
/** @type {Record<string, string>} */
const PROGRESS = { write: "wrote", better: "a gate got better", pass: "a gate passed" };

export function watch() {
  const holder = h("div", { class: "part" }, note("Loading the watch …"));
  const state = h("p", { class: "muted small", role: "status" }, "\u00a0");
  const control = new AbortController();
  let timer = 0;
  const look = async () => {
    const isHeld = holder.contains(document.activeElement);
    if (isHeld) text(state, "Held still while it has the focus.");
    if (!document.hidden && !isHeld) {
      try {
        const answer = await orNone(getJson("v1/conductor/watch", {}, control.signal));
        show(holder, answer);
        text(state, "\u00a0");
      } catch (error) {
        if (control.signal.aborted) return;
        if (!(error instanceof ApiFault)) reportError(error);
        text(state, `▲ Not refreshed: ${error instanceof Error ? error.message : error}`);
      }
    }
    timer = window.setTimeout(() => void look(), EVERY_MS);
  };
  void look();
  return {
    node: h("div", null, holder, state),
    stop() {
      control.abort();
      window.clearTimeout(timer);
    },
  };
}

/** A table that is made anew stays scrolled to where it was. @param {HTMLElement} holder @param {Json} answer */
function show(holder, answer) {
  const sessions = answer?.sessions ?? [];
  const { scrollTop = 0, scrollLeft = 0 } = holder.querySelector(".table-wrap") ?? {};
  clear(holder, sessions.length ? table("Watched sessions", HEAD, sessions.map(row)) : note(answer ? "No session has asked anything since the server started." : "No conductor: the server runs without one, and watches no session."));
  holder.querySelector(".table-wrap")?.scrollTo(scrollLeft, scrollTop);
}

/** @param {Json} session @returns {Child[]} */
const row = ({ key, client_kind, gates, compaction, progress, client, push }) => [
  [sessionLink(key), h("small", { class: "muted" }, ` ${client_kind}`)],
  gates.length ? gates.map(gate) : NONE,
  compaction.watching ? h("span", { class: "warn" }, `▲ no state file read in ${count(compaction.steps)} calls`, noted(compaction)) : compaction.steps ? `${count(compaction.steps)} calls since the last` : NONE,
  progress.kind === null ? "none yet" : `${PROGRESS[progress.kind] ?? progress.kind} ${since(progress.age_s)}`,
  client.idle_s === null ? "● a turn runs" : client.gone ? h("span", { class: "warn" }, `▲ gone, last turn ended ${since(client.idle_s)}`) : `○ idle, last turn ended ${since(client.idle_s)}`,
  push ? "yes" : "no",
];

/** @param {Json} gate */
function gate(gate) {
  const { name, verdict, value, best, fails } = gate;
  if (verdict === "PASS") return h("div", null, h("span", { class: "good" }, "✓ "), `${name} passes`);
  const points = value === null ? "" : `, ${count(value)} open (best ${count(best)})`;
  return h("div", null, h("span", { class: "bad" }, "✖ "), `${name} fails, ${count(fails)} running${points}`, noted(gate));
}

/** @param {{ noted: boolean }} one */
const noted = (one) => one.noted && [" ", h("span", { class: "badge" }, "noted")];

/** @param {number | null} s */
const since = (s) => (s === null ? NONE : `${seconds(s * 1000)} ago`);
