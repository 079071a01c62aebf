// Overview: what the conductor did in a day and in a week, its newest decisions and sessions (OBS-086).

import { getJson } from "../api.js";
import { decisionTable } from "../decisions.js";
import { clear, h } from "../dom.js";
import { count, percent, seconds } from "../format.js";
import { box, button, facts, note, panel, table, toggles } from "../panel.js";
import { orNone, sessionTable } from "../sessions.js";

const FEED = 20;
const SESSIONS = 10;
/** @type {[string, string][]} */
const SPANS = [["day", "24 hours"], ["week", "7 days"]];

/** @type {Record<string, string>} */
const MODES = {
  raw: "raw: requests reach the model as they are, nothing is decided about them",
  on: "on: each request's profile says what is decided about it",
};

/** @param {HTMLElement} root */
function mount(root) {
  let span = "day";
  /** @type {any} */
  let known = null;
  const figures = h("div");
  const show = () => clear(figures, known && spanOf(known[span]));
  const pick = (/** @type {string} */ value) => {
    span = value;
    show();
  };
  const started = panel("the server's state", "low", (signal) => getJson("health", {}, signal), today);
  const counted = panel("the figures", "mid", (signal) => orNone(getJson("v1/conductor/overview", {}, signal)), (answer) => {
    known = answer;
    show();
    return answer ? [toggles("Time", SPANS, span, pick), figures] : none();
  });
  const sessions = panel("the sessions", "low", (signal) => orNone(getJson("v1/conductor/sessions", { limit: SESSIONS }, signal)), (answer) => (answer ? (answer.sessions.length ? sessionTable(answer.sessions) : note("There is none.")) : none()));
  const parts = [started, counted, feed(), sessions];
  const [, , decided] = parts;
  const load = () => parts.forEach((part) => void part.load());
  clear(root, box("Since the server started", h("p", { class: "toolbar" }, button("Refresh", load)), started.node), box("What was decided", counted.node), box("Newest decisions", decided?.node), box("Newest sessions", sessions.node));
  load();
  return () => parts.forEach((part) => part.stop());
}

const none = () => note("No conductor: start the server with ", h("code", null, "--conductor-config"), " to have one.");

/** The decisions feed, with side rows; older ones on demand. */
function feed() {
  /** @type {any[]} */
  let rows = [];
  /** @type {number | null} */
  let before = null;
  let older = false;
  const part = panel("the decisions", "mid", (signal) => orNone(getJson("v1/conductor/decisions", { limit: FEED, ...(older && before !== null && { before }) }, signal)), (answer) => {
    if (!answer) return none();
    rows = older ? [...rows, ...answer.decisions] : answer.decisions;
    before = answer.next_before;
    if (!rows.length) return note("Nothing has been decided yet.");
    return [decisionTable(rows), before !== null && h("p", { class: "toolbar" }, button("Older decisions", () => load(true)))];
  });
  const load = (/** @type {boolean} */ more) => {
    older = more;
    return part.load();
  };
  return { ...part, load: () => load(false) };
}

/** @param {any} found */
function spanOf(found) {
  const { requests, hidden_tokens, findings, acted, gave_up, tasks } = found;
  const shadow = tasks.reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + one.shadow, 0);
  const share = (/** @type {number} */ part) => (findings ? ` (${percent(part / findings)} of the findings)` : "");
  return [
    facts([["Turns", count(requests)], ["Hidden tokens", count(hidden_tokens)], ["Acts", count(acted) + share(acted)], ["In shadow", count(shadow) + share(shadow)], ["Given up", count(gave_up)]]),
    note("Side requests are not counted."),
    h("div", { class: "sums" }, counts("Classes", "Class", found.classes, requests), counts("Effort", "Level", found.efforts, requests), counts("Modes", "Mode", found.modes, requests)),
    tasks.length > 0 && table("Acts by task", ["Task", "#Found", "#Acted", "#In shadow", "#Hidden tokens"], tasks.map((/** @type {any} */ one) => [one.task, count(one.findings), count(one.acted), count(one.shadow), count(one.hidden_tokens)])),
  ];
}

/** @param {string} label @param {string} head @param {{ name: string, count: number }[]} found @param {number} whole */
const counts = (label, head, found, whole) =>
  found.length > 0 && table(label, [head, "#Turns", "#Share"], found.map((one) => [one.name, count(one.count), percent(one.count / whole)]));

/** With a password set, callers that are not signed in get less. @param {any} health */
function today({ inflight, conductor, uptime_s }) {
  /** @type {[string, string][]} */
  const pairs = [["Mode", modeWords(conductor?.mode)]];
  if (inflight) {
    const refused = Object.values(inflight.refused).reduce((/** @type {number} */ sum, value) => sum + Number(value), 0);
    pairs.push(["Up for", seconds(uptime_s * 1000)], ["Running", count(inflight.running)], ["Waiting", count(inflight.waiting)], ["Served", count(inflight.served)], ["Refused", count(refused)], ["Errors", count(inflight.errors)], ["Timeouts", count(inflight.timeouts)], ["Clients left", count(inflight.abandoned)]);
  }
  return facts(pairs);
}

/** @param {string | undefined} mode */
export const modeWords = (mode = "not told without a sign-in") => MODES[mode] ?? mode;

export const view = { id: "overview", title: "Overview", mount };
