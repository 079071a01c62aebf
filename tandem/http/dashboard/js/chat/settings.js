// The panel of parameters: the server's defaults stand in the empty fields, and only what was typed is sent.

import { ApiFault, getJson } from "../api.js";
import { clear, h, text } from "../dom.js";
import { count } from "../format.js";
import { FIELDS, read, toolNames } from "./params.js";
import * as store from "./store.js";

/** @typedef {import("./session.js").Session} Session */
/** @typedef {import("./params.js").Field} Field */

/**
 * @param {Session} session
 * @param {(changed: number, wrong: number) => void} tell
 */
export function settings(session, tell) {
  /** @type {Map<string, { box: HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement, wrong: HTMLElement }>} */
  const boxes = new Map();
  const about = h("p", { class: "muted small" }, "\u00a0");
  const key = h("input", { type: "password", autocomplete: "off", oninput: () => (session.key = key.value.trim()) });
  const keyField = h("label", { class: "field", hidden: true }, "API key, until the page is left", key);

  const check = () => {
    const { wrong } = read(session.params);
    for (const [name, each] of boxes) {
      const typed = session.params[name]?.trim() ?? "";
      each.box.toggleAttribute("data-changed", typed !== "");
      each.box.setAttribute("aria-invalid", String(wrong.has(name)));
      text(each.wrong, wrong.get(name) ?? "");
    }
    tell(Object.values(session.params).filter((typed) => typed.trim()).length, wrong.size);
  };
  const changed = () => {
    for (const [name, { box }] of boxes) {
      if (box.value.trim()) session.params[name] = box.value;
      else delete session.params[name];
    }
    store.save("params", session.params);
    fillChoice(boxes.get("tool_choice")?.box, session.params);
    check();
  };
  const fill = (/** @type {store.Params} */ params) => {
    session.params = { ...params };
    fillChoice(boxes.get("tool_choice")?.box, params);
    for (const [name, { box }] of boxes) box.value = params[name] ?? "";
    changed();
  };

  const fields = FIELDS.map((field) => {
    const box = input(field, changed);
    const wrong = h("span", { class: "bad small", role: "status" });
    boxes.set(field.name, { box, wrong });
    const name = h("span", null, field.label, field.note ? `, ${field.note}` : null);
    const wide = ["text", "tools", "lines"].includes(field.kind);
    return h("label", { class: wide ? "field wide" : "field" }, name, box, wrong);
  });
  const reset = h("button", { type: "button", onclick: () => fill({}) }, "Use the server's defaults");
  const node = h(
    "section",
    { class: "panel chat-settings", "aria-label": "Parameters" },
    about,
    keyField,
    h("div", { class: "chat-fields" }, fields),
    reset,
    presets(session, fill),
  );
  fill(session.params);
  const control = new AbortController();
  void defaults(control.signal).then((known) => {
    if (!known) return;
    session.model = known.model;
    session.changed("turns");
    text(about, known.words);
    if (known.key) keyField.hidden = false;
    for (const [name, words] of known.values) boxes.get(name)?.box.setAttribute("placeholder", words);
    const effort = boxes.get("reasoning_effort")?.box.querySelector("option");
    if (effort && known.effort) text(effort, `default: ${known.effort}`);
  });
  return { node, stop: () => control.abort(), askKey: () => (keyField.hidden = false) };
}

/** @param {Field} field @param {() => void} changed */
function input(field, changed) {
  const attrs = { name: field.name, oninput: changed, placeholder: "default" };
  if (field.kind === "word" || field.kind === "choice") {
    const options = ["", ...(field.words ?? [])].map((word) => h("option", { value: word }, word || "default"));
    return h("select", attrs, options);
  }
  if (field.kind === "text" || field.kind === "lines" || field.kind === "tools") {
    const code = field.kind !== "text";
    return h("textarea", { ...attrs, placeholder: "none", rows: field.kind === "lines" ? 2 : 3, spellcheck: String(!code), class: code ? "mono" : null });
  }
  return h("input", { ...attrs, inputmode: field.kind === "whole" ? "numeric" : "decimal", autocomplete: "off" });
}

/** The tools that can be forced are those that are there. @param {Element | undefined} box @param {store.Params} params */
function fillChoice(box, params) {
  if (!(box instanceof HTMLSelectElement)) return;
  const chosen = params["tool_choice"] ?? "";
  const words = ["auto", "none", "required"];
  const names = [...toolNames(params), chosen].filter((name, n, all) => name && !words.includes(name) && all.indexOf(name) === n);
  while (box.options.length > words.length + 1) box.options[words.length + 1]?.remove();
  for (const name of names) box.append(h("option", { value: name }, name));
  box.value = chosen;
}

/**
 * What the server does where a request says nothing. None where neither source answers.
 * @param {AbortSignal} signal
 */
async function defaults(signal) {
  const ask = (/** @type {string} */ path) =>
    getJson(path, {}, signal).catch((error) => (error instanceof ApiFault || signal.aborted ? null : Promise.reject(error)));
  const [health, system] = await Promise.all([ask("health"), ask("v1/dashboard/system")]);
  if (!health && !system) return null;
  /** @type {Map<string, string>} */
  const values = new Map([["temperature", "0"], ["top_p", "1"], ["top_k", "all"], ["min_p", "0"], ["presence_penalty", "0"], ["frequency_penalty", "0"], ["seed", "none"], ["max_reasoning_tokens", "by effort"]]);
  const window = health?.limits?.context_length ?? system?.card?.context_length;
  if (window) values.set("max_tokens", "what fits");
  const setting = (/** @type {string} */ name) =>
    system?.settings?.find((/** @type {{ name: string }} */ each) => each.name === name)?.value;
  const model = String(health?.model ?? system?.model ?? "");
  return {
    model,
    values,
    effort: health?.reasoning?.reasoning_effort ?? setting("reasoning_effort"),
    key: system?.access?.api_key_set === true,
    words: `${model}${window ? `, window of ${count(window)} tokens` : ""}. Only what you change is sent.`,
  };
}

/**
 * Named sets of parameters, kept in this browser.
 * @param {Session} session
 * @param {(params: store.Params) => void} use
 */
function presets(session, use) {
  /** @type {Record<string, store.Params>} */
  let known = store.load("presets", {});
  const name = h("input", { "aria-label": "Name of the preset", placeholder: "Name of the preset", list: "chat-presets" });
  const names = h("datalist", { id: "chat-presets" });
  const state = h("span", { class: "muted small", role: "status" });
  const show = () => {
    clear(names, Object.keys(known).map((each) => h("option", { value: each })));
    use_.disabled = remove.disabled = export_.disabled = Object.keys(known).length === 0;
  };
  const keep = (/** @type {string} */ words) => {
    text(state, store.save("presets", known) ? words : "This browser keeps nothing.");
    show();
  };
  const chosen = () => {
    const found = known[name.value.trim()];
    if (!found) text(state, "There is no preset of this name.");
    return found;
  };
  const button = (/** @type {string} */ words, /** @type {() => void} */ onclick) => h("button", { type: "button", onclick }, words);
  const use_ = button("Use", () => {
    const found = chosen();
    if (found) use(found);
  });
  const save = button("Save", () => {
    const named = name.value.trim();
    if (!named) return text(state, "A preset needs a name.");
    known = { ...known, [named]: { ...session.params } };
    keep(`Saved as ${named}.`);
  });
  const remove = button("Remove", () => {
    if (!chosen()) return;
    const { [name.value.trim()]: _, ...rest } = known;
    known = rest;
    keep("Removed.");
  });
  const export_ = button("Export", () => store.download("tandem-presets.json", JSON.stringify(known, null, 2) + "\n"));
  const file = h("input", { type: "file", accept: ".json,application/json", hidden: true, onchange: () => void bring() });
  const bring = async () => {
    try {
      known = { ...known, ...checked(JSON.parse((await file.files?.[0]?.text()) ?? "")) };
      keep("Imported.");
    } catch {
      text(state, "This file holds no presets.");
    }
    file.value = "";
  };
  const import_ = button("Import", () => file.click());
  const node = h("fieldset", null, h("legend", null, "Presets"), name, names, h("div", { class: "row wrap" }, use_, save, remove, export_, import_), file, state);
  show();
  return node;
}

/** @param {any} found @returns {Record<string, store.Params>} */
function checked(found) {
  const text_ = (/** @type {any} */ params) =>
    params !== null && typeof params === "object" && Object.values(params).every((each) => typeof each === "string");
  if (found === null || typeof found !== "object" || Array.isArray(found) || !Object.values(found).every(text_)) throw new Error("no presets");
  return found;
}
