// The test box: what a typed message would be routed to, outside any session and without an answer (OBS-092, PRF-019).

import { ApiFault, sendJson } from "../api.js";
import { meter, stageWords } from "../decisions.js";
import { clear, h } from "../dom.js";
import { count, duration, percent } from "../format.js";
import { box, choice, facts, note, table } from "../panel.js";

/** @typedef {import("../dom.js").Child} Child */

const KNOWN = ["class", "confidence", "source", "kept", "effort", "thinking", "budget", "size", "note", "note_tokens", "stages", "contract_version", "extra", "digest", "ms"];

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
  const { confidence, source, effort, thinking, budget, size, note: notes = [], note_tokens, stages = [], digest, extra } = answer;
  const label = answer.class;
  /** @type {[string, Child][]} */
  const pairs = [
    ["Class", label ? [h("strong", null, label), known(confidence) && ` ${percent(confidence)}`, source && ` by ${source}`] : "none"],
    ["Effort", [effort ?? "as the client asks", thinking && `, thinking ${thinking}`, known(budget) && `, at most ${count(budget)} tokens`]],
    ["Size", size ?? "not measured"],
    ["Note", notes.length ? `${notes.map((/** @type {any} */ part) => part.name).join(", ")}${known(note_tokens) ? ` (${count(note_tokens)} tokens)` : ""}` : "none"],
  ];
  if (known(answer.ms)) pairs.push(["Planning took", duration(answer.ms)]);
  const rest = Object.entries(answer).filter(([name, value]) => !KNOWN.includes(name) && known(value));
  const texts = [...notes.map((/** @type {any} */ part) => [`Note: ${part.name}`, part.text]), ["What the stages read", digest], ["Extra", extra && Object.keys(extra).length ? JSON.stringify(extra, null, 1) : null]];
  return [
    facts([...pairs, ...rest.map(([name, value]) => /** @type {[string, Child]} */ ([name, typeof value === "object" ? JSON.stringify(value) : String(value)]))]),
    stages.length ? stages.map(stage) : note("No stage was asked."),
    texts.map(([title, words]) => words && h("details", { class: "section" }, h("summary", null, title), h("pre", { class: "said whole", tabindex: "0" }, words))),
  ];
}

/** @param {any} value */
const known = (value) => value !== null && value !== undefined;

/** @param {any} one */
function stage(one) {
  const likely = Object.entries(one.probabilities ?? {}).map(([name, share]) => /** @type {[string, number]} */ ([name, Number(share)])).sort((a, b) => b[1] - a[1]);
  return [h("h3", { class: "apart" }, `Stage ${one.stage}`), note(stageWords({ ...one, probabilities: null })), likely.length > 0 && table(`Probabilities of ${one.stage}`, ["Class", "#Probability", "Share"], likely.map(([name, share]) => [name, percent(share), meter(share)]))];
}
