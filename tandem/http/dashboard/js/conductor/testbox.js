// The test box: what a typed message would be routed to, outside any session and without an answer (OBS-092, PRF-019).

import { ApiFault, sendJson } from "../api.js";
import { meter, stageWords } from "../decisions.js";
import { clear, h } from "../dom.js";
import { percent } from "../format.js";
import { box, choice, facts, note, table } from "../panel.js";

/** @typedef {import("../dom.js").Child} Child */

const KNOWN = ["class", "confidence", "source", "effort", "size", "notes", "stages", "contract_version"];

/** @param {string[]} profiles */
export function testBox(profiles) {
  let profile = "";
  let turn = new AbortController();
  const typed = h("textarea", { rows: 3, required: true, maxlength: 100_000 });
  const result = h("div", { class: "part test-result", "aria-live": "polite" }, note("Nothing is generated, and no session is touched."));
  const send = async (/** @type {Event} */ event) => {
    event.preventDefault();
    turn.abort();
    const { signal } = (turn = new AbortController());
    result.setAttribute("aria-busy", "true");
    /** @type {Child} */
    let content;
    try {
      content = shown(await sendJson("POST", "v1/conductor/test", { text: typed.value, ...(profile && { profile }) }, signal));
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof ApiFault)) throw error;
      content = h("div", { class: "failure", role: "alert" }, `✖ ${error.message}`);
    }
    if (signal.aborted) return;
    clear(result, content);
    result.removeAttribute("aria-busy");
  };
  const form = h(
    "form",
    { class: "test-form", onsubmit: send },
    h("label", { class: "field" }, "A user's message", typed),
    h("p", { class: "toolbar" }, choice("Profile", [["", "The default profile"], ...profiles.map((name) => /** @type {[string, string]} */ ([name, name]))], "", (value) => (profile = value)), h("button", { type: "submit", class: "primary" }, "Classify")),
  );
  return { node: box("Test box", form, result), stop: () => turn.abort() };
}

/** @param {any} answer */
function shown(answer) {
  const { confidence, source, effort, size, notes, stages } = answer;
  const label = answer.class;
  /** @type {[string, Child][]} */
  const pairs = [
    ["Class", label ? [h("strong", null, label), confidence === undefined || confidence === null ? null : ` ${percent(confidence)}`, source && ` by ${source}`] : "none"],
    ["Effort", named(effort) ?? "as the client asks"],
    ["Size", named(size) ?? "not measured"],
    ["Notes", (notes ?? []).map((/** @type {any} */ one) => named(one)).join(", ") || "none"],
  ];
  const rest = Object.entries(answer).filter(([name, value]) => !KNOWN.includes(name) && value !== null);
  return [
    facts([...pairs, ...rest.map(([name, value]) => /** @type {[string, Child]} */ ([name, typeof value === "object" ? JSON.stringify(value) : String(value)]))]),
    (stages ?? []).map(stage),
    !(stages ?? []).length && note("No stage was asked."),
  ];
}

/** A word, or the name of what has more to it. @param {any} value @returns {string | undefined} */
function named(value) {
  if (value === null || value === undefined) return undefined;
  if (typeof value !== "object") return String(value);
  return String(value.level ?? value.size ?? value.name ?? value.parts?.join(" + ") ?? JSON.stringify(value));
}

/** @param {any} one */
function stage(one) {
  const likely = Object.entries(one.probabilities ?? {}).map(([name, share]) => /** @type {[string, number]} */ ([name, Number(share)])).sort((a, b) => b[1] - a[1]);
  return [h("h3", { class: "apart" }, `Stage ${one.stage}`), note(stageWords({ ...one, probabilities: null })), likely.length > 0 && table(`Probabilities of ${one.stage}`, ["Class", "#Probability", ""], likely.map(([name, share]) => [name, percent(share), meter(share)]))];
}
