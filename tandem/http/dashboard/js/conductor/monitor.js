// Monitor: what it found and did, how its sessions stand, and the policy that says when it acts (OBS-096, MON-132).

import { actTable, hiddenTexts } from "../acts.js";
import { getJson } from "../api.js";
import { clear, h } from "../dom.js";
import { NONE, clock, count } from "../format.js";
import { box, button, choice, note, panel, table } from "../panel.js";
import { orNone, sessionLink } from "../sessions.js";
import { editor } from "./editor.js";
import { watch } from "./watch.js";

/** @typedef {any} Json */

const ROWS = 50;
const JUDGED = 200;
const CLAIMS = "E2";
/** @type {import("../panel.js").Choices} */
const MODES = [["", "Acted and shadow"], ["act", "Where it acts"], ["shadow", "In shadow"]];

/** @param {HTMLElement} root @param {import("../app.js").App} app */
export function screen(root, app) {
  const session = app.rest[1];
  const found = findings(session);
  const counts = panel("the counts", "low", (signal) => orNone(getJson("v1/conductor/overview", {}, signal)), counted);
  const judged = panel("the follow-up verdicts", "low", (signal) => orNone(getJson("v1/conductor/events", { kind: "monitor", task: CLAIMS, session, limit: JUDGED }, signal)), verdicts);
  const policy = editor({ name: "monitor", app });
  const watched = watch();
  const parts = [found, counts, judged];
  const load = () => parts.forEach((part) => void part.load());
  clear(
    root,
    box("What it found", session !== undefined && h("p", { class: "toolbar" }, h("a", { href: "#/conductor/monitor" }, "← All sessions"), h("span", null, "Of session ", sessionLink(session))), h("div", { class: "toolbar" }, button("Refresh", load), found.filters), found.node),
    box("By task", counts.node),
    box(`What became of ${CLAIMS}'s notes`, judged.node),
    box("Watch", watched.node),
    policy.node,
  );
  load();
  return () => {
    parts.forEach((part) => part.stop());
    watched.stop();
    policy.stop();
  };
}

/** The newest findings; older ones on demand. @param {string | undefined} session */
function findings(session) {
  const texts = hiddenTexts();
  /** @type {Json[]} */
  let rows = [];
  /** @type {number | null} */
  let before = null;
  let older = false;
  /** @type {Record<string, string>} */
  const wanted = {};
  const part = panel("the findings", "mid", (signal) => orNone(getJson("v1/conductor/events", { kind: "monitor", findings: 1, limit: ROWS, session, ...wanted, ...(older && before !== null && { before }) }, signal)), (answer) => {
    if (!answer) return note("No conductor: the server runs without one, and does not show its journal.");
    rows = older ? [...rows, ...answer.events] : answer.events;
    before = answer.next_before;
    if (!rows.length) return note("It has found nothing.");
    return [actTable(rows, texts), before !== null && h("p", { class: "toolbar" }, button("Older findings", () => load(true)))];
  });
  const load = (/** @type {boolean} */ more) => {
    older = more;
    return part.load();
  };
  const pick = (/** @type {string} */ name) => (/** @type {string} */ value) => {
    wanted[name] = value;
    void load(false);
  };
  const tasks = h("input", { type: "search", maxlength: 32, spellcheck: "false", placeholder: "all", onchange: () => pick("task")(tasks.value.trim()) });
  const filters = [h("label", { class: "field" }, "Task", tasks), choice("Mode", MODES, "", pick("mode"))];
  return { ...part, filters, load: () => load(false) };
}

/** What each task found in a day and in a week. @param {Json} answer */
function counted(answer) {
  const { day, week } = answer ?? { week: { tasks: [] } };
  if (!week.tasks.length) return note("No task has found anything in 7 days.");
  const today = new Map(day.tasks.map((/** @type {Json} */ one) => [one.task, one]));
  const figures = (/** @type {Json} */ one) => [count(one?.findings ?? 0), count(one?.acted ?? 0), count(one?.shadow ?? 0)];
  return table(
    "Findings by task",
    ["Task", "#Found, 24 h", "#Acted", "#In shadow", "#Found, 7 days", "#Acted", "#In shadow", "#Hidden tokens"],
    week.tasks.map((/** @type {Json} */ one) => [one.task, ...figures(today.get(one.task)), ...figures(one), count(one.hidden_tokens)]),
  );
}

/** What a note about an unproven claim led to, as the calls behind it show. @param {Json} answer */
function verdicts(answer) {
  const labels = (answer?.events ?? []).filter((/** @type {Json} */ row) => row.decision === "LABEL");
  if (!labels.length) return note("No note has been followed up yet.");
  const plain = (/** @type {string | undefined} */ code) => code?.replaceAll("_", " ") ?? NONE;
  return table(
    "Follow-up verdicts",
    ["Time", "Note for", "Said", "Afterwards", "#Calls", "Claimed again", "Session"],
    labels.map((/** @type {Json} */ { ts_ms, reason, detail, session_key }) => [clock(ts_ms), plain(detail?.verdict), detail?.sent ? "● to the model" : "◇ in shadow only", plain(/\((.*)\)/.exec(reason ?? "")?.[1]), count(detail?.call_count), detail?.claimed ? "▲ yes" : "no", session_key ? sessionLink(session_key) : NONE]),
  );
}
