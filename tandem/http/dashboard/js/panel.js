// What the screens about the past are made of: a part that loads, fails and is tried again; tables that scroll in their
// own box; how a request ended as a glyph and a word.

import { ApiFault } from "./api.js";
import { clear, h } from "./dom.js";

/** @typedef {import("./dom.js").Child} Child */
/** @typedef {[value: string, words: string][]} Choices */

// The rules of these screens come with them. An import of this module waits for the sheet, so nothing jumps.
await new Promise((done) => {
  document.head.append(h("link", { rel: "stylesheet", href: "css/past.css", onload: done, onerror: done }));
});

/**
 * A part of the page with one question behind it. `load` asks it anew: what is shown stays, dimmed, until the answer is
 * there. A failure says what went wrong, with a button that tries again.
 * @template T
 * @param {string} what names the content: "Loading {what} …"
 * @param {"low" | "mid" | "high"} tall the room kept for the first answer
 * @param {(signal: AbortSignal) => Promise<T>} ask
 * @param {(answer: T) => Child} show
 */
export function panel(what, tall, ask, show) {
  const node = h("div", { class: `part part-${tall}`, "aria-busy": "true" }, note(`Loading ${what} …`));
  let turn = new AbortController();
  const load = async () => {
    turn.abort();
    const { signal } = (turn = new AbortController());
    node.setAttribute("aria-busy", "true");
    /** @type {Child} */
    let content;
    try {
      content = show(await ask(signal));
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof ApiFault)) reportError(error);
      content = failure(what, error, () => void load());
    }
    if (signal.aborted) return;
    clear(node, content);
    node.removeAttribute("aria-busy");
    node.className = "part";
  };
  return { node, load, stop: () => turn.abort() };
}

/** @param {string} what @param {unknown} error @param {() => void} again */
function failure(what, error, again) {
  const words = `Could not load ${what}: ${error instanceof Error ? error.message : error}`;
  const glyph = h("span", { class: "bad", "aria-hidden": "true" }, "✖ ");
  return h("div", { class: "failure", role: "alert" }, h("p", null, glyph, words), button("Try again", again));
}

/** @param {string} words @param {() => void} press */
export const button = (words, press) => h("button", { type: "button", onclick: press }, words);

/** A box with a heading. @param {string} title @param {...Child} children */
export const box = (title, ...children) =>
  h("section", { class: "panel", "aria-label": title }, h("header", null, h("h2", null, title)), children);

/** @param {...Child} children */
export const note = (...children) => h("p", { class: "part-note" }, children);

/** @param {[name: string, value: Child][]} pairs */
export const facts = (pairs) =>
  h("dl", { class: "facts" }, pairs.map(([name, value]) => [h("dt", null, name), h("dd", null, value)]));

/** What a screen of the ledger says where none is kept. */
export const noLedger = () =>
  note(
    h("strong", null, "No usage ledger is kept"),
    ", so nothing of the past is known here. Start the server with ",
    h("code", null, "--usage-ledger usage/ledger.sqlite3"),
    "; ",
    h("code", null, "make serve"),
    " does. It holds one row of numbers a request, and no text.",
  );

/**
 * A table in a box of its own, which scrolls sideways where it is too wide and by the keyboard. The first cell of a row
 * is its head.
 * @param {string} label
 * @param {string[]} head a name that begins with "#" is of a column of numbers
 * @param {Child[][]} rows
 */
export function table(label, head, rows) {
  const kind = head.map((name) => (name.startsWith("#") ? "num" : null));
  const heads = head.map((name, i) => h("th", { scope: "col", class: kind[i] }, name.replace("#", "")));
  const lines = rows.map(([first, ...cells]) =>
    h("tr", null, h("th", { scope: "row" }, first), cells.map((cell, i) => h("td", { class: kind[i + 1] }, cell))),
  );
  return h(
    "div",
    { class: "table-wrap", tabindex: "0", role: "region", "aria-label": label },
    h("table", null, h("thead", null, h("tr", null, heads)), h("tbody", null, lines)),
  );
}

/** @type {Record<string, [glyph: string, tone: string]>} */
const ENDS = {
  stop: ["✓", "good"],
  tool_calls: ["⚙", "good"],
  length: ["…", "warn"],
  abandoned: ["○", "warn"],
  refused: ["▲", "warn"],
  timeout: ["✖", "bad"],
  error: ["✖", "bad"],
};
export const FINISHES = Object.keys(ENDS);

/** How a request ended, as a glyph and the ledger's word. @param {string} reason @param {Child} [more] */
export function ending(reason, more) {
  const [glyph, tone] = ENDS[reason] ?? ["•", ""];
  return h("span", { class: `ending ${tone}` }, h("span", { "aria-hidden": "true" }, glyph), ` ${reason}`, more);
}

/** A labelled choice. @param {string} label @param {Choices} choices @param {string} value @param {(value: string) => void} change */
export function choice(label, choices, value, change) {
  const options = choices.map(([each, words]) => h("option", { value: each, selected: each === value }, words));
  const list = h("select", { onchange: () => change(list.value) }, options);
  return h("label", { class: "field" }, label, list);
}

/** Buttons of which one is pressed. @param {string} label @param {Choices} choices @param {string} value @param {(value: string) => void} change */
export function toggles(label, choices, value, change) {
  const buttons = choices.map(([each, words]) => {
    const one = button(words, () => {
      for (const other of buttons) other.setAttribute("aria-pressed", String(other === one));
      change(each);
    });
    one.setAttribute("aria-pressed", String(each === value));
    return one;
  });
  return h("div", { class: "toggles", role: "group", "aria-label": label }, buttons);
}

/** A bar of parts, each as long as its share. @param {number[]} parts @param {string[]} tones @param {Record<string, string>} attrs */
export function shares(parts, tones, attrs) {
  const pieces = parts.map((part, i) => {
    const piece = h("i", { class: tones[i] });
    piece.style.flexGrow = String(part);
    return part > 0 && piece;
  });
  return h("div", { ...attrs, class: `shares ${attrs["class"] ?? ""}` }, pieces);
}

/** The key to a colour. @param {string} tone */
export const dot = (tone) => h("i", { class: `dot ${tone}`, "aria-hidden": "true" });
