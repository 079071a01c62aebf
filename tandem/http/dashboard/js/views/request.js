// All that is known of one request: where its time went, its row of the ledger, its journal, its log lines, and how it
// stands while it runs.

import { ApiFault, getJson } from "../api.js";
import { actTable, hiddenTexts, isMonitors } from "../acts.js";
import { decisionTable } from "../decisions.js";
import { clear, h, text } from "../dom.js";
import { NONE, clock, count, decimal, duration, rate } from "../format.js";
import { box, button, dot, ending, noLedger, note, panel, shares, table } from "../panel.js";
import { sessionLink } from "../sessions.js";

const LINES = 500;
const EVENTS = 200;

/** @typedef {Record<string, any>} Row */

/** @type {Record<string, [glyph: string, tone: string]>} */
const LEVELS = { WARNING: ["▲", "warn"], ERROR: ["✖", "bad"], CRITICAL: ["✖", "bad"] };
const time = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 });

/** The parts of a request's time: column, words, colour. */
const SPANS = [["queue_ms", "Waited", "s6"], ["prompt_ms", "Read the prompt", "s2"], ["decode_ms", "Wrote", "s1"]];

/** @param {HTMLElement} root @param {import("../app.js").App} app @param {string} id */
export function detail(root, app, id) {
  const live = h("div", { class: "live-data" });
  const ledger = panel(
    "the request",
    "mid",
    (signal) => getJson("v1/dashboard/requests", { request_id: id, limit: 1 }, signal),
    ({ ledger: { enabled }, requests: [row] }) => {
      if (!enabled) return noLedger();
      return row ? [timing(row), columns(row)] : note("The ledger has no row of it: it still runs, or its row is not written yet or is older than the ledger keeps.");
    },
  );
  const journal = panel("the journal", "low", (signal) => journalRows({ request_id: id, limit: EVENTS }, signal), (rows) => {
    if (!rows) return note("No conductor: the server runs without one, and does not show its journal.");
    const decided = rows.filter((row) => row["kind"] === "route" || row["kind"] === "side");
    const session = rows.find((row) => row["session_key"])?.["session_key"];
    const found = rows.filter(isMonitors);
    const others = rows.filter((row) => !isMonitors(row));
    return rows.length ? [session && note("Of session ", sessionLink(session)), decided.length > 0 && decisionTable(decided), found.length > 0 && actTable(found, hiddenTexts()), others.length > 0 && journalTable(others)] : note("No row of the journal is of it.");
  });
  const lines = panel(
    "its log lines",
    "low",
    (signal) => getJson("v1/dashboard/logs", { request_id: id, limit: LINES }, signal),
    (answer) => (answer.lines.length ? h("ol", { class: "log short", tabindex: "0", "aria-label": "Log lines of this request" }, answer.lines.map(lineRow)) : note("None of the newest 5,000 lines is of it.")),
  );
  const parts = [ledger, journal, lines];
  const load = () => parts.forEach((part) => void part.load());
  clear(
    root,
    h("p", { class: "toolbar" }, h("a", { href: "#/dev" }, "← All requests"), button("Refresh", load)),
    box(`Request ${id}`, live, ledger.node),
    box("Journal", journal.node),
    box("Log lines", lines.node),
  );
  let ran = false;
  const leave = app.live.subscribe((document) => {
    const row = document.requests.find((one) => one.request_id === id && one.phase !== "done");
    if (ran && !row) load();
    ran = Boolean(row);
    now(live, row);
  });
  load();
  return () => {
    leave();
    parts.forEach((part) => part.stop());
  };
}

/** What it does at the moment, in the server's words. @param {HTMLElement} node @param {Wire.Row | undefined} row */
function now(node, row) {
  if (!row) return node.replaceChildren();
  if (!node.firstChild) clear(node, h("p", { class: "notice" }, h("strong", null, "▶ runs now: "), h("span"), " ", h("a", { href: "#/live" }, "Live")));
  const words = node.querySelector("span");
  if (words) text(words, `${row.activity?.label ?? row.phase}, ${duration(row.elapsed_ms)} so far, ${count(row.completion_tokens)} tokens written.${row.activity?.conductor ? ` ${row.activity.conductor.label}.` : ""}`);
}

/** @param {Row} row */
function timing(row) {
  const spent = SPANS.map(([column]) => Number(row[column ?? ""] ?? 0));
  spent.push(Math.max(0, row["total_ms"] - spent.reduce((sum, ms) => sum + ms, 0)));
  const spans = [...SPANS, ["", "The rest", "rest"]].map(([, name, tone = ""], i) => ({ tone, words: `${name} ${duration(spent[i])}` }));
  const label = `Of ${duration(row["total_ms"])}: ${spans.map((span) => span.words).join(", ")}`;
  return [
    h("p", { class: "sum" }, ending(row["finish_reason"], row["error_type"] && `: ${row["error_type"]}`), h("strong", null, duration(row["total_ms"])), ` from ${clock(row["ts_ms"])}`),
    shares(spent, spans.map((span) => span.tone), { class: "tall", role: "img", "aria-label": label }),
    h("ul", { class: "legend", "aria-hidden": "true" }, spans.map(({ tone, words }) => h("li", null, dot(tone), words))),
  ];
}

/** @param {string} name @param {any} value */
function written(name, value) {
  if (name === "ts_ms") return new Date(value).toISOString();
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value !== "number" || name === "id") return String(value);
  if (name.endsWith("_ms")) return duration(value);
  if (name.endsWith("_tps")) return `${rate(value)} tok/s`;
  return Number.isInteger(value) ? count(value) : decimal(value, 2);
}

/** The ledger's columns by their own names. @param {Row} row */
function columns(row) {
  const names = Object.keys(row);
  const known = names.filter((name) => row[name] !== null);
  const missing = names.filter((name) => row[name] === null);
  return [
    h("h3", { class: "apart" }, "Ledger row"),
    h("dl", { class: "facts many" }, known.map((name) => h("div", null, h("dt", null, name), h("dd", null, written(name, row[name]))))),
    missing.length > 0 && note(`Without a value: ${missing.join(", ")}.`),
  ];
}

/** Rows of the conductor's journal; null where there is no conductor. @param {Record<string, string | number>} wanted @param {AbortSignal} signal @returns {Promise<Row[] | null>} */
export async function journalRows(wanted, signal) {
  try {
    return (await getJson("v1/conductor/events", wanted, signal)).events;
  } catch (error) {
    if (error instanceof ApiFault && error.status === 404) return null;
    throw error;
  }
}

/** @param {Row[]} rows */
export function journalTable(rows) {
  const names = ["kind", "task", "mode", "decision", "action", "reason", "summary"];
  return table("Journal rows", ["Time", ...names], rows.map((one) => [clock(one["ts_ms"]), ...names.map((name) => String(one[name] ?? NONE))]));
}

/** One line of the log. What the memory gate refuses stands out. @param {import("../logfeed.js").Line} line */
export function lineRow({ ts, level, source, msg, request_id }) {
  const [glyph, tone] = LEVELS[level] ?? ["•", "muted"];
  const isGate = source === "memory" && tone === "bad";
  return h(
    "li",
    { class: `line ${tone}${isGate ? " gate" : ""}` },
    h("time", { datetime: new Date(ts * 1000).toISOString(), title: clock(ts) }, time.format(ts * 1000)),
    h("span", { class: `level ${tone}` }, h("span", { "aria-hidden": "true" }, `${glyph} `), level.toLowerCase()),
    h("span", { class: "tag" }, `[${source}]`),
    h("span", { class: "msg" }, isGate && "Memory gate: ", msg, request_id && [" ", h("a", { href: `#/dev/request/${encodeURIComponent(request_id)}`, "aria-label": `Request ${request_id}` }, "details")]),
  );
}
