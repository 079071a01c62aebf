// Rows of the journal that say what was decided about a request: class, effort, notes and the stages that were asked.

import { clear, h } from "./dom.js";
import { NONE, clock, count, duration, percent } from "./format.js";
import { table } from "./panel.js";
import { sessionLink } from "./sessions.js";

/** @typedef {Record<string, any>} Row */
/** @typedef {import("./dom.js").Child} Child */

const HEAD = ["Time", "Turn", "Profile", "Class", "Effort", "Notes", "Stages", "More"];
const TOLD_APART = new Set(["turn", "stages", "notes", "thinking", "budget", "budget_source", "source", "kept", "confidence"]);
const SHOWN = 3;

/** @param {Row[]} rows of kind route and side */
export const decisionTable = (rows) =>
  table("Decisions", HEAD, rows.map((row) => [when(row), turn(row), profile(row), classOf(row), effort(row), notes(row["detail"]?.notes), stages(row["detail"]?.stages), more(row)]));

/** @param {Row} row */
export const when = ({ ts_ms, request_id }) => (request_id ? h("a", { href: `#/dev/request/${encodeURIComponent(request_id)}` }, clock(ts_ms)) : clock(ts_ms));

/** @param {Row} row @returns {Child} */
function turn({ kind, decision, detail, extra }) {
  const shape = extra?.side?.shape ?? detail?.shape ?? decision;
  if (kind === "side") return h("span", { class: "badge" }, `◇ side${shape ? `: ${shape}` : ""}`);
  return detail?.turn ?? NONE;
}

/** @param {Row} row @returns {Child} */
const profile = (row) => [row["profile"] ?? NONE, row["mode"] && row["mode"] !== "on" && h("small", { class: "muted" }, ` ${row["mode"]}`)];

/** @param {Row} row @returns {Child} */
function classOf(row) {
  if (!row["class"]) return NONE;
  const sure = row["score"] ?? row["detail"]?.confidence;
  const source = row["detail"]?.source ?? row["reason"];
  const kept = row["detail"]?.kept;
  return [h("strong", null, row["class"]), ` ${percent(sure)} `, h("small", { class: "muted" }, source ?? "", kept && `, kept: ${kept}`)];
}

/** What a field of the client turned off is never shown as the class's level (OBS-116). @param {Row} row @returns {Child} */
function effort(row) {
  const { thinking, detail } = row;
  if (typeof thinking === "string" && thinking.startsWith("off")) return `thinking ${thinking}`;
  if (!row["effort"]) return detail?.cap === undefined ? NONE : `at most ${count(detail.cap)}`;
  const budget = detail?.budget;
  return [h("strong", null, row["effort"]), h("small", { class: "muted" }, budget ? ` ${count(budget)} tokens${detail.budget_source ? `, ${detail.budget_source}` : ""}` : "")];
}

/** @param {any} found names, or notes with their parts @returns {Child} */
function notes(found) {
  if (!Array.isArray(found) || !found.length) return NONE;
  const each = found.map((one) => (typeof one === "string" ? one : `${(one.parts ?? []).join(", ") || "note"} (${one.kind ?? "new"}${one.tokens === undefined ? "" : `, ${count(one.tokens)} tok`})`));
  return each.map((words) => h("div", null, words));
}

/** @param {any} found @returns {Child} */
export function stages(found) {
  if (!Array.isArray(found) || !found.length) return NONE;
  return found.map((one) => h("div", { class: "stage" }, h("strong", null, one.stage ?? "stage"), ` ${stageWords(one)}`));
}

/** @param {Row} stage */
export function stageWords(stage) {
  const { label, confidence, probabilities, ms, error, guard } = stage;
  const likely = Object.entries(probabilities ?? {}).map(([name, share]) => /** @type {[string, number]} */ ([name, Number(share)])).sort((one, other) => other[1] - one[1]);
  const others = likely.filter(([name]) => name !== label).slice(0, SHOWN).map(([name, share]) => `${name} ${percent(share)}`);
  const parts = [label && `${label} ${percent(confidence)}`, others.length > 0 && others.join(", "), guard && `guard ${typeof guard === "string" ? guard : "held it back"}`, error && `✖ ${error}`, ms !== undefined && ms !== null && duration(ms)];
  return parts.filter(Boolean).join(" · ");
}

/** Whatever else the row says, by its own names; made when it is opened. @param {Row} row @param {Row} [figures] these too @returns {Child} */
export function more(row, figures = {}) {
  const rest = Object.entries({ ...figures, session: row["session_key"], hidden_tokens: row["hidden_tokens"], position: row["position"], outcome: row["outcome"], next_checker: row["next_checker"], ...picked(row["detail"]), ...row["extra"] });
  const told = rest.filter(([, value]) => value !== null && value !== undefined);
  if (!told.length) return NONE;
  const node = h("details", null, h("summary", null, `${told.length} more`));
  node.addEventListener("toggle", () => node.childElementCount === 1 && node.append(h("dl", { class: "facts" }, told.map(([name, value]) => [h("dt", null, name), h("dd", null, name === "session" ? sessionLink(value) : typeof value === "object" ? JSON.stringify(value) : String(value))]))));
  return node;
}

/** @param {Row | null} detail */
const picked = (detail) => Object.fromEntries(Object.entries(detail ?? {}).filter(([name]) => !TOLD_APART.has(name)));

/** A share of 1 as a bar. @param {number} share */
export function meter(share) {
  const bar = h("i");
  bar.style.width = `${Math.round(Math.max(0, Math.min(1, share)) * 100)}%`;
  return clear(h("div", { class: "meter", "aria-hidden": "true" }), bar);
}
