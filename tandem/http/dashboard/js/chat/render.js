// Markdown as elements. A text that grows changes only what is new: what stays keeps its selection and scroll position.

import { h } from "../dom.js";
import { Growing } from "./markdown.js";

/** @typedef {import("./markdown.js").Block} Block */
/** @typedef {import("./markdown.js").Inline} Inline */

/** Shows a text as Markdown inside a node, again and again as it grows. */
export class Markdown {
  #growing = new Growing();
  #shown = "";

  /** @param {HTMLElement} node */
  constructor(node) {
    this.node = node;
  }

  /** @param {string} source the whole text so far */
  show(source) {
    if (source === this.#shown) return;
    if (!source.startsWith(this.#shown)) {
      this.#growing = new Growing();
      this.node.replaceChildren();
    }
    this.#shown = source;
    const { kept, fresh } = this.#growing.take(source);
    alike(this.node, fresh.map(block), kept);
  }
}

/** @param {Block} each @returns {HTMLElement} */
function block(each) {
  switch (each.t) {
    case "p":
      return h("p", null, each.c.map(piece));
    case "h":
      return heading(each.level, each.c);
    case "code":
      return code(each.lang, each.text);
    case "quote":
      return h("blockquote", null, each.c.map(block));
    case "hr":
      return h("hr");
    case "list": {
      const items = each.items.map((item) => listItem(item, each.loose));
      if (each.start === null) return h("ul", null, items);
      return h("ol", { start: each.start === 1 ? null : each.start }, items);
    }
    case "table":
      return table(each);
  }
}

/** The page has its own h1 and h2, so that those of an answer begin below. @param {number} level @param {Inline[]} text */
function heading(level, text) {
  /** @type {["h3", "h4", "h5", "h6"]} */
  const names = ["h3", "h4", "h5", "h6"];
  return h(names[Math.min(level, 4) - 1] ?? "h6", null, text.map(piece));
}

/** @param {import("./markdown.js").Item} item @param {boolean} loose */
function listItem(item, loose) {
  const inner = item.c.map((each) => (!loose && each.t === "p" ? each.c.map(piece) : block(each)));
  if (item.done === null) return h("li", null, inner);
  const box = h("input", { type: "checkbox", checked: item.done, disabled: true, "aria-label": item.done ? "done" : "open" });
  return h("li", { class: "task" }, box, inner);
}

/** @param {string} lang @param {string} text */
function code(lang, text) {
  const copy = h("button", { type: "button", class: "quiet", onclick: copyNext }, "Copy");
  const body = h("pre", { tabindex: "0", "aria-label": lang ? `Code, ${lang}` : "Code" }, h("code", null, text));
  return h("div", { class: "code" }, h("div", { class: "code-head" }, h("span", null, lang || "text"), copy), body);
}

/** Copies the text of the block that a button is on. @param {Event} event */
async function copyNext(event) {
  const button = /** @type {HTMLElement} */ (event.currentTarget);
  await copied(button, button.closest(".code")?.querySelector("pre")?.textContent ?? "");
}

/**
 * Copies a text and says so on the button for a moment.
 * @param {HTMLElement} button
 * @param {string} text
 */
export async function copied(button, text) {
  const name = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "No access";  // outside https and localhost a browser has no clipboard
  }
  setTimeout(() => (button.textContent = name), 1500);
}

/** @param {Extract<Block, { t: "table" }>} each */
function table(each) {
  const row = (/** @type {"th" | "td"} */ tag, /** @type {Inline[][]} */ cells) =>
    h("tr", null, cells.map((cell, n) => h(tag, { class: each.align[n] ?? null }, cell.map(piece))));
  const body = each.rows.map((cells) => row("td", cells));
  const whole = h("table", null, h("thead", null, row("th", each.head)), h("tbody", null, body));
  return h("div", { class: "table", tabindex: "0", role: "region", "aria-label": "Table" }, whole);
}

/** @param {Inline} each @returns {import("../dom.js").Child} */
function piece(each) {
  if (typeof each === "string") return each;
  const inner = each.c.map(piece);
  switch (each.t) {
    case "br":
      return h("br");
    case "link":
      return link(each.href ?? "", inner);
    default:
      return h(each.t, null, inner);
  }
}

/** A link to http, https or mailto; anything else is only its text. @param {string} href @param {import("../dom.js").Child} inner */
function link(href, inner) {
  let url;
  try {
    url = new URL(href);
  } catch {
    return h("span", null, inner);
  }
  if (!["http:", "https:", "mailto:"].includes(url.protocol)) return h("span", { title: href }, inner);
  const node = h("a", { rel: "noopener noreferrer", target: "_blank", title: url.href }, inner);
  node.setAttribute("href", url.href);
  return node;
}

/**
 * Makes the children of a node, from `from` on, like `fresh`; those that are alike stay in the document.
 * @param {Node} node
 * @param {Node[]} fresh
 * @param {number} from
 */
function alike(node, fresh, from) {
  const old = [...node.childNodes].slice(from);
  fresh.forEach((next, n) => {
    const was = old[n];
    if (!was) node.appendChild(next);
    else if (was instanceof Text && next instanceof Text) grow(was, next.data);
    else if (was instanceof Element && next instanceof Element && was.cloneNode().isEqualNode(next.cloneNode()))
      alike(was, [...next.childNodes], 0);
    else node.replaceChild(next, was);
  });
  for (const gone of old.slice(fresh.length)) node.removeChild(gone);
}

/** @param {Text} was @param {string} data */
function grow(was, data) {
  if (was.data === data) return;
  if (data.startsWith(was.data)) was.appendData(data.slice(was.length));
  else was.data = data;
}
