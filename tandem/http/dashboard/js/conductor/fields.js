// The fields of a form: one for each kind of value. A key that is not there is an empty field that shows the default.

import { clear, h, text } from "../dom.js";
import { pathText } from "./draft.js";
import { isLong, keepsEmpty, limits } from "./schema.js";

/** @typedef {any} Json */
/** @typedef {import("./draft.js").Path} Path */
/** @typedef {import("./schema.js").Shape} Shape */
/** @typedef {import("./form.js").Form} Form */
/** @typedef {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} Box */

/**
 * @typedef {object} Codec between a value and the text in its box
 * @property {(shape: Shape) => Box} box
 * @property {(value: Json) => string} show
 * @property {(typed: string, shape: Shape) => Json} read undefined: the key is not there
 * @property {(value: Json, shape: Shape) => string} [wrong] why the server will refuse it
 */

let made = 0;

/** @param {Json} value */
export const words = (value) => {
  if (value === null || value === undefined) return "none";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Array.isArray(value) && value.every((one) => typeof one !== "object")) return value.length ? value.join(", ") : "none";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
};

const input = () => h("input", { type: "text", spellcheck: "false", autocomplete: "off" });
const area = (rows = 2) => h("textarea", { rows, spellcheck: "false" });

/** @param {string[]} values */
const choices = (values) => (/** @type {Shape} */ { absent }) =>
  h("select", null, absent !== undefined && h("option", { value: "" }, `default: ${words(absent)}`), values.map((value) => h("option", { value }, value)));

/** @param {string} typed @param {Shape} shape */
const chosen = (typed, shape) => (typed === "" && shape.absent !== undefined ? undefined : (shape.node["enum"].find((/** @type {Json} */ one) => String(one) === typed) ?? typed));

/** @type {Record<string, Codec>} */
const CODECS = {
  choice: { box: (shape) => choices(shape.node["enum"])(shape), show: (value) => String(value ?? ""), read: chosen },
  flag: {
    box: choices(["yes", "no"]),
    show: (value) => (typeof value === "boolean" ? words(value) : ""),
    read: (typed) => (typed === "" ? undefined : typed === "yes"),
  },
  number: {
    box: () => h("input", { type: "text", inputmode: "decimal", spellcheck: "false", autocomplete: "off" }),
    show: (value) => String(value ?? ""),
    read: (typed) => (typed.trim() === "" ? undefined : numberOr(typed)),
    wrong: (value) => (typeof value === "string" ? "This is no number." : ""),
  },
  text: {
    box: ({ node }) => (isLong(node) ? area() : input()),
    show: (value) => String(value ?? ""),
    read: (typed, shape) => (typed === "" && !keepsEmpty(shape) ? undefined : typed),
  },
  lines: {
    box: () => area(1),
    show: (value) => (Array.isArray(value) ? value.join("\n") : ""),
    read: (typed, { absent }) => linesOr(typed, absent?.length === 0 ? undefined : []),
  },
  numbers: {
    box: input,
    show: (value) => (Array.isArray(value) ? value.join(", ") : String(value ?? "")),
    read: (typed) => (typed.trim() === "" ? undefined : typed.split(",").map(numberOr)),
    wrong: (value) => (Array.isArray(value) && value.some((one) => typeof one === "string") ? "Numbers with commas between them." : ""),
  },
  json: {
    box: () => area(),
    show: (value) => (value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value, null, 1)),
    read: (typed) => (typed.trim() === "" ? undefined : jsonOr(typed)),
    wrong: (value, { node }) => (typeof value === "string" && node["type"] !== "string" ? "This is no JSON." : ""),
  },
};

/** @param {string} typed @param {Json} none what no line at all means @returns {Json} */
function linesOr(typed, none) {
  const lines = typed.split("\n").map((line) => line.trim()).filter(Boolean);
  return lines.length ? lines : none;
}

/** @param {string} typed @returns {Json} */
const numberOr = (typed) => (typed.trim() !== "" && Number.isFinite(Number(typed)) ? Number(typed) : typed);

/** @param {string} typed @returns {Json} */
function jsonOr(typed) {
  try {
    return JSON.parse(typed);
  } catch {
    return typed;
  }
}

/** A key, its value and what it means. @param {Form} form @param {Shape} shape @param {Path} path @param {string} name */
export function field(form, shape, path, name) {
  const { draft } = form;
  const codec = /** @type {Codec} */ (CODECS[shape.kind] ?? CODECS["json"]);
  const box = codec.box(shape);
  const isNull = shape.isNullable && shape.absent === undefined;
  const id = `entry-${++made}`;
  const wrong = h("span", { class: "bad small entry-wrong", id: `${id}-wrong`, role: "status" });
  box.id = id;
  box.setAttribute("aria-describedby", `${id}-help ${id}-wrong`);
  if (!(box instanceof HTMLSelectElement) && shape.absent !== undefined) box.placeholder = `default: ${words(shape.absent)}`;
  box.addEventListener("input", () => draft.set(path, box.value === "" && isNull ? null : codec.read(box.value, shape)));
  const refresh = () => {
    const value = draft.get(path);
    if (document.activeElement !== box || box instanceof HTMLSelectElement) fill(box, codec.show(value));
    const fault = codec.wrong?.(value, shape) || form.faultAt(path);
    box.setAttribute("aria-invalid", String(Boolean(fault)));
    text(wrong, fault ? `▲ ${fault}` : "");
    node.toggleAttribute("data-changed", draft.differs(path));
    text(mark, draft.differs(path) ? "● changed" : "");
    if (drop) drop.style.visibility = value === undefined ? "hidden" : "visible";
  };
  const mark = h("span", { class: "entry-mark small" });
  const drop = shape.absent !== undefined && isTyped(shape) ? toDefault(form, path, name, shape.absent === null ? "take away" : undefined) : null;
  const node = h(
    "div",
    { class: isWide(shape) ? "entry wide" : "entry", dataset: { path: pathText(path) } },
    h("div", { class: "entry-head" }, h("label", { for: id }, h("code", null, name)), mark, drop),
    box,
    h("p", { class: "muted small", id: `${id}-help` }, `${shape.help} ${limits(shape.node)}`.trim()),
    wrong,
  );
  form.onChange(node, refresh);
  refresh();
  return node;
}

/** @param {Shape} shape */
const isTyped = ({ kind }) => kind !== "choice" && kind !== "flag";

/** @param {Shape} shape */
const isWide = ({ kind, node }) => kind === "json" || (kind === "text" && isLong(node));

/** @param {Form} form @param {Path} path @param {string} name @param {string} [words] */
export const toDefault = (form, path, name, words = "use default") =>
  h("button", { type: "button", class: "quiet small", "aria-label": `${words}: ${name}`, onclick: () => form.replace(path, undefined) }, words);

/** A value that its choices do not have is one of them from now on. @param {Box} box @param {string} value */
function fill(box, value) {
  if (box instanceof HTMLSelectElement && ![...box.options].some((option) => option.value === value)) box.append(h("option", { value }, value || "not set"));
  if (box.value !== value) box.value = value;
}

/** Part of a form that is made when it is opened first. @param {Path} path @param {Node[]} summary @param {() => Node} make */
export function lazy(path, summary, make) {
  const body = h("div", { class: "section-body" });
  const node = h("details", { class: "section", dataset: { path: pathText(path) } }, h("summary", null, summary), body);
  const build = () => void (node.open && !body.firstChild && clear(body, make()));
  builders.set(node, build);
  node.addEventListener("toggle", build);
  return node;
}

/** @type {WeakMap<Element, () => void>} */
const builders = new WeakMap();

/** @param {HTMLDetailsElement} node */
export function open(node) {
  node.open = true;
  builders.get(node)?.();
}

/** Opens the form down to a path, and puts the focus there. @param {Element} root @param {string} wanted @param {string} [first] what gets it */
export function reveal(root, wanted, first = "input, select, textarea") {
  /** @type {Element | null} */
  let found = null;
  for (let from = root; ; ) {
    const fits = [...from.querySelectorAll("[data-path]")].filter((node) => node !== found && leads(node, wanted));
    const next = fits[fits.length - 1];
    if (!next || next === found) break;
    found = from = next;
    if (next instanceof HTMLDetailsElement) open(next);
  }
  const target = found?.querySelector(first) ?? found?.querySelector("summary");
  if (target instanceof HTMLElement) {
    target.scrollIntoView({ block: "center" });
    target.focus({ preventScroll: true });
  }
}

/** @param {Element} node @param {string} wanted */
function leads(node, wanted) {
  const path = node instanceof HTMLElement ? node.dataset["path"] ?? "" : "";
  return path !== "" && wanted.startsWith(path) && [undefined, ".", "["].includes(wanted[path.length]);
}
