// All of one session: its figures, and its rows of router and monitor in the order of time, each with the hidden text at
// its place, for who may read that (OBS-099, OBS-112).

import { actTable, isMonitors, sessionTexts } from "../acts.js";
import { getJson } from "../api.js";
import { decisionTable } from "../decisions.js";
import { clear, h } from "../dom.js";
import { NONE, clock, count } from "../format.js";
import { box, button, facts, note, panel, toggles } from "../panel.js";
import { exported } from "../sessions.js";
import { journalTable } from "./request.js";

/** @typedef {Record<string, any>} Row */

/** @type {import("../panel.js").Choices} */
const HALVES = [["all", "All rows"], ["router", "The router's"], ["monitor", "The monitor's"]];

/** @param {HTMLElement} root @param {string} key */
export function detail(root, key) {
  const path = `v1/conductor/sessions/${encodeURIComponent(key)}`;
  let half = "all";
  const part = panel("the session", "high", (signal) => Promise.all([getJson(path, {}, signal), sessionTexts(key, signal)]), ([{ session, events, cut }, texts]) => {
    const rows = h("div", { class: "part" });
    const show = () => clear(rows, events.filter((/** @type {Row} */ event) => half === "all" || isMonitors(event) === (half === "monitor")).map((/** @type {Row} */ event) => row(event, texts)));
    const pick = (/** @type {string} */ value) => {
      half = value;
      show();
    };
    show();
    return [figures(session), typeof texts === "string" && h("p", { class: "notice" }, texts), toggles("Rows", HALVES, half, pick), cut && note("Older rows than these are left out."), rows];
  });
  clear(
    root,
    h("p", { class: "toolbar" }, h("a", { href: "#/overview" }, "← Newest sessions"), button("Refresh", () => void part.load()), h("span", null, "What the model saw: "), exported(key, "md"), exported(key, "json")),
    box(`Session ${key}`, part.node),
  );
  void part.load();
  return part.stop;
}

/** @param {Row} session */
const figures = (session) =>
  facts([
    ["First", clock(session["first_ms"])],
    ["Last", clock(session["last_ms"])],
    ["Client", session["client_kind"] ?? NONE],
    ["Profile", session["profile"] ?? NONE],
    ["Prompt tokens", count(session["prompt_tokens"])],
    ["Requests", count(session["requests"])],
    ["Findings", count(session["findings"])],
    ["Hidden tokens", count(session["hidden_tokens"])],
  ]);

/** @param {Row} event @param {Record<string, string> | string} texts by hash, or why they are not shown */
function row(event, texts) {
  const isRouters = event["kind"] === "route" || event["kind"] === "side";
  if (isMonitors(event)) return h("section", { class: "event", "aria-label": `monitor ${event["id"]}` }, actTable([event], () => Promise.resolve(texts)));
  return h(
    "section",
    { class: "event", "aria-label": `${event["kind"]} ${event["id"]}` },
    isRouters ? decisionTable([event]) : journalTable([event]),
    ended(event),
    isRouters && (event["detail"]?.notes ?? []).map((/** @type {Row} */ one) => said(`${one["kind"]} note`, one, typeof texts === "string" ? undefined : texts[one["hash"]])),
  );
}

/** @param {Row} event */
function ended({ outcome, next_checker, extra }) {
  const told = [outcome && `ended: ${outcome}`, next_checker && `checker after it: ${next_checker}`, extra?.states?.length && `lines shown: ${extra.states.map((/** @type {Row} */ one) => `› ${one["text"]}`).join(" ")}`];
  const words = told.filter(Boolean).join(" · ");
  return words && note(words);
}

/** @param {string} what @param {Row} where @param {string | undefined} found */
function said(what, where, found) {
  const place = where["position"] === null || where["position"] === undefined ? "" : ` at token ${count(where["position"])}`;
  const words = `${what}${place}${where["tokens"] ? `, ${count(where["tokens"])} tokens` : ""}`;
  return h("details", { class: "section" }, h("summary", null, words), h("pre", { class: "said whole", tabindex: "0" }, found ?? "Its text is not shown or no longer kept."));
}
