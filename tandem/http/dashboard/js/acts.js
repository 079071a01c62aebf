// Rows of the monitor: what it found due at a safe point of an answer, what was done of it, and the text that the model
// read and its client did not, for who may read that (OBS-096, OBS-112).

import { ApiFault, getJson } from "./api.js";
import { more, when } from "./decisions.js";
import { h, text } from "./dom.js";
import { NONE, count, decimal } from "./format.js";
import { table } from "./panel.js";

/** @typedef {Record<string, any>} Row */
/** @typedef {import("./dom.js").Child} Child */
/** @typedef {(session: string) => Promise<Record<string, string> | string>} Texts by hash, or why they are not shown */

const BOOKKEEPING = ["OUTCOME", "LABEL", "COUNTS"];
const HEAD = ["Time", "Task", "Point", "Decision", "Done", "Reason", "#Hidden tokens", "Text", "More"];

/** @param {Row} row */
export const isMonitors = (row) => row["kind"] === "monitor";

/** @param {Row[]} rows of kind monitor @param {Texts} texts */
export const actTable = (rows, texts) =>
  table("Monitor", HEAD, rows.map((row) => [when(row), h("strong", null, row["task"] ?? NONE), row["sp"] ?? NONE, words(row["decision"]), done(row), reason(row), count(row["hidden_tokens"]), said(row, texts), more(row, figures(row))]));

/** CLOSE_REASONING as it is read. @param {string | null} code */
const words = (code) => (code === null ? NONE : code.toLowerCase().replaceAll("_", " "));

/** Whether it acted, as a glyph and a word. @param {Row} row @returns {Child} */
function done({ mode, decision, action }) {
  if (BOOKKEEPING.includes(decision)) return h("span", { class: "muted" }, "· noted");
  if (decision === "PASS") return h("span", { class: "muted" }, "○ let pass");
  if (action === null || action === "PASS") return h("span", { class: "badge" }, mode === "shadow" ? "◇ shadow" : "○ not done");
  return h("span", { class: action === "GIVE_UP" ? "badge warn" : "badge good" }, action === "GIVE_UP" ? "▲ gave up" : "● acted", action !== decision && action !== "GIVE_UP" && `: ${words(action)}`);
}

/** @param {Row} row @returns {Child} */
const reason = ({ reason, score, summary }) => [h("span", { class: "said" }, reason ?? NONE), score !== null && h("small", { class: "muted" }, ` ${decimal(score, 2)}`), summary && h("div", { class: "muted" }, summary)];

/** @param {Row} row */
const figures = ({ reasoning_cut, policy_version, rule, tier, profile, mode }) => ({ rule, tier, mode, profile, reasoning_cut, policy_version });

/** The text, which is asked for when it is opened. @param {Row} row @param {Texts} texts @returns {Child} */
function said({ session_key, text_hash, position, decision }, texts) {
  if (!text_hash || !session_key) return NONE;
  const body = h("pre", { class: "said whole", tabindex: "0" }, "Loading …");
  const place = position === null ? "" : ` at token ${count(position)}`;
  const node = h("details", null, h("summary", null, decision === "GIVE_UP" ? "what the client read" : `what the model read${place}`), body);
  node.addEventListener("toggle", () => node.open && void shown(texts(session_key), text_hash).then((found) => text(body, found)));
  return node;
}

/** @param {ReturnType<Texts>} texts @param {string} hash @returns {Promise<string>} */
async function shown(texts, hash) {
  try {
    const found = await texts;
    return typeof found === "string" ? found : (found[hash] ?? "Its text is no longer kept.");
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** The hidden texts of sessions, each session's asked for once. @returns {Texts} */
export function hiddenTexts() {
  /** @type {Map<string, ReturnType<Texts>>} */
  const known = new Map();
  return (session) => {
    const found = known.get(session) ?? sessionTexts(session);
    known.set(session, found);
    found.catch(() => known.delete(session));
    return found;
  };
}

/** Only who administers may read them. @param {string} session @param {AbortSignal} [signal] @returns {ReturnType<Texts>} */
export async function sessionTexts(session, signal) {
  try {
    return (await getJson(`v1/conductor/sessions/${encodeURIComponent(session)}/export`, { format: "json" }, signal)).texts;
  } catch (error) {
    if (error instanceof ApiFault && (error.status === 401 || error.status === 403)) return "The texts that only the model read are shown to whoever has signed in.";
    throw error;
  }
}
