// A form for a document, built from its JSON Schema: sections that open, lists whose items move, keys that are added.

import { button } from "../panel.js";
import { clear, h, text } from "../dom.js";
import { own, pathText } from "./draft.js";
import { field, lazy, open, reveal, toDefault } from "./fields.js";
import { formOf, shapeOf, variants } from "./schema.js";

/** @typedef {any} Json */
/** @typedef {import("../dom.js").Child} Child */
/** @typedef {import("./draft.js").Draft} Draft */
/** @typedef {import("./draft.js").Path} Path */
/** @typedef {import("./schema.js").Shape} Shape */
/** @typedef {import("./schema.js").Schema} Schema */

const FIRST_KEYS = ["id", "name", "label", "description", "mode", "tier"];

export class Form {
  /** @param {Schema} schema @param {Draft} draft @param {boolean} isLocked */
  constructor(schema, draft, isLocked) {
    this.schema = schema;
    this.draft = draft;
    /** @type {Map<Node, () => void>} */
    this.parts = new Map();
    /** What the server said of a key, until the document changes. */
    this.fault = { path: "", message: "" };
    this.node = h("fieldset", { class: "form", disabled: isLocked });
    this.stop = () => void draft.readers.delete(this.changed);
    draft.readers.add(this.changed);
  }

  changed = () => {
    this.fault = { path: "", message: "" };
    this.refresh();
  };

  refresh() {
    for (const [node, refresh] of this.parts) {
      if (node.isConnected) refresh();
      else this.parts.delete(node);
    }
  }

  /** @param {Path} path */
  faultAt(path) {
    return this.fault.path !== "" && this.fault.path === pathText(path) ? this.fault.message : "";
  }

  /** @param {string} path @param {string} message */
  refuse(path, message) {
    this.fault = { path, message };
    this.refresh();
  }

  /** @param {Node} node @param {() => void} refresh */
  onChange(node, refresh) {
    this.parts.set(node, refresh);
  }

  /** A value that its field did not type. @param {Path} path @param {Json} value */
  replace(path, value) {
    if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
    this.draft.set(path, value);
  }

  /** Everything below `path`, which the schema `part` describes. @param {Schema} part @param {Path} path */
  show(part, path) {
    const shape = shapeOf(this.schema, part);
    clear(this.node, shape.kind === "object" ? keys(this, shape, path, true) : field(this, shape, path, "document"));
    return this.node;
  }
}

/** The keys of a section: single values first, then what has values of its own. @param {Form} form @param {Shape} shape @param {Path} path @param {boolean} [isTop] @returns {Child[]} */
function keys(form, { node }, path, isTop = false) {
  const needed = /** @type {string[]} */ (node["required"] ?? []);
  const parts = /** @type {[string, Schema][]} */ (Object.entries(node["properties"])).filter(([, part]) => part["const"] === undefined);
  const found = parts.map(([name, part]) => ({ name, shape: shapeOf(form.schema, part, needed.includes(name)) }));
  const isBranch = (/** @type {Shape} */ shape) => ["object", "map", "list"].includes(shape.kind);
  const simple = found.filter(({ shape }) => !isBranch(shape)).sort((one, other) => rank(one.name) - rank(other.name));
  const deep = found.filter(({ shape }) => isBranch(shape));
  return [
    simple.length > 0 && h("div", { class: "entries" }, simple.map(({ name, shape }) => field(form, shape, [...path, name], name))),
    deep.map(({ name, shape }) => (isTop ? section(form, shape, [...path, name], name) : group(form, shape, [...path, name], name))),
  ];
}

/** @param {string} name */
const rank = (name) => (FIRST_KEYS.includes(name) ? FIRST_KEYS.indexOf(name) : FIRST_KEYS.length);

/** @param {Form} form @param {Shape} shape @param {Path} path @param {string} name @returns {Child[]} */
const branch = (form, shape, path, name) => (shape.kind === "object" ? keys(form, shape, path) : [items(form, shape, path, name)]);

/** @param {Form} form @param {Shape} shape @param {Path} path @param {string} name */
function section(form, shape, path, name) {
  const mark = h("span", { class: "entry-mark small" });
  const refresh = () => text(mark, form.draft.differs(path) ? "● changed" : "");
  const make = () => h("div", { class: "section-keys" }, branch(form, shape, path, name));
  const node = lazy(path, [h("code", null, name), h("span", { class: "muted" }, ` ${shape.help}`), mark], make);
  form.onChange(node, refresh);
  refresh();
  return node;
}

/** @param {Form} form @param {Shape} shape @param {Path} path @param {string} name */
function group(form, shape, path, name) {
  return h(
    "fieldset",
    { class: "group", dataset: { path: pathText(path) } },
    h("legend", null, h("code", null, name)),
    h("p", { class: "muted small" }, shape.help),
    branch(form, shape, path, name),
  );
}

/** A list of sections, or sections by their keys. @param {Form} form @param {Shape} shape @param {Path} path @param {string} name */
function items(form, shape, path, name) {
  const { draft } = form;
  const isMap = shape.kind === "map";
  const inner = shapeOf(form.schema, isMap ? shape.node["additionalProperties"] : shape.node["items"]);
  const holder = h("div", { class: "items" });
  /** @type {Json[]} the keys, or the items themselves, as they are shown */
  let shown = [];
  const now = () => draft.get(path) ?? (isMap ? {} : []);
  const order = () => (isMap ? Object.keys(now()) : [...now()]);
  const drop = shape.absent === undefined ? null : toDefault(form, path, name);
  const draw = () => {
    const next = order();
    if (drop) drop.style.visibility = draft.get(path) === undefined ? "hidden" : "visible";
    if (next.length === shown.length && next.every((one, i) => one === shown[i])) return;
    const opened = new Set([...holder.querySelectorAll(":scope > details[open]")].map((node) => node.getAttribute("data-id")));
    shown = next;
    clear(holder, next.map((each, i) => itemNode(form, inner, [...path, isMap ? each : i], isMap, name)));
    for (const node of holder.children) if (node instanceof HTMLDetailsElement && opened.has(node.getAttribute("data-id"))) open(node);
  };
  const add = (/** @type {string} */ key) => {
    const at = isMap ? key : now().length;
    if (!isMap) form.replace(path, [...now(), blank(form.schema, inner, key)]);
    else if (!Object.hasOwn(now(), key)) form.replace(path, withKey(now(), key, blank(form.schema, inner)));
    reveal(holder, pathText([...path, at]));
  };
  const node = h("div", { class: "list" }, drop && h("p", { class: "row muted small" }, `Default: ${brief(shape.absent)}`, drop), holder, adder(shape, inner, isMap, name, add));
  form.onChange(node, draw);
  draw();
  return node;
}

/** @param {Json} tree @param {string} key @param {Json} value */
function withKey(tree, key, value) {
  const copy = { ...tree };
  own(copy, key, value);
  return copy;
}

/** @param {Json} value */
function brief(value) {
  if (value === null || Object.keys(value).length === 0) return "none. ";
  return `${Object.keys(value).length} built in. `;
}

/** @param {Form} form @param {Shape} inner @param {Path} path @param {boolean} isMap @param {string} name */
function itemNode(form, inner, path, isMap, name) {
  const { draft } = form;
  const key = path[path.length - 1] ?? "";
  const above = path.slice(0, -1);
  const title = () => (isMap ? String(key) : String(draft.get(path)?.id ?? draft.get(path)?.name ?? `${name} ${Number(key) + 1}`));
  const tools = () =>
    h(
      "p",
      { class: "row item-tools" },
      !isMap && [move(form, above, Number(key), -1, title), move(form, above, Number(key), 1, title)],
      named(form, "Remove", title, () => form.replace(above, without(draft.get(above), key))),
    );
  if (inner.kind !== "object") return h("div", { class: "item" }, field(form, inner, path, String(key)), tools());
  const head = h("strong");
  const about = h("span", { class: "muted" });
  const mark = h("span", { class: "entry-mark small" });
  const refresh = () => {
    text(head, title() || "no name yet");
    text(about, isMap ? summary(draft.get(path)) : ` ${described(form, inner, draft.get(path))}`);
    text(mark, draft.differs(path) ? "● changed" : "");
  };
  const node = lazy(path, [head, about, mark], () => h("div", { class: "section-keys" }, tools(), keys(form, formOf(form.schema, inner, draft.get(path)), path)));
  node.setAttribute("data-id", title());
  form.onChange(node, refresh);
  refresh();
  return node;
}

/** What an item is for. @param {Form} form @param {Shape} inner @param {Json} value @returns {string} */
function described(form, inner, value) {
  const { key, forms } = variants(inner.node);
  if (!forms.has(value?.[key])) return value?.description ?? "";
  return `${value[key]}, ${value.mode}: ${formOf(form.schema, inner, value).node["description"] ?? ""}`;
}

/** The first values of a section, in one line. @param {Json} value */
function summary(value) {
  const some = Object.entries(value ?? {}).filter(([, one]) => typeof one !== "object").slice(0, 3);
  return some.map(([name, one]) => ` ${name}: ${one}`).join(",");
}

/** @param {Json} tree @param {string | number} key */
function without(tree, key) {
  if (Array.isArray(tree)) return tree.filter((_, i) => i !== key);
  return Object.fromEntries(Object.entries(tree).filter(([name]) => name !== key));
}

/** @param {Form} form @param {string} words @param {() => string} title @param {() => void} press */
function named(form, words, title, press) {
  const one = button(words, press);
  const refresh = () => one.setAttribute("aria-label", `${words} ${title()}`);
  form.onChange(one, refresh);
  refresh();
  return one;
}

/** @param {Form} form @param {Path} path @param {number} i @param {number} by @param {() => string} title */
function move(form, path, i, by, title) {
  const one = named(form, by < 0 ? "Up" : "Down", title, () => {
    const list = [...form.draft.get(path)];
    list.splice(i + by, 0, ...list.splice(i, 1));
    form.replace(path, list);
    reveal(form.node, pathText([...path, i + by]), "summary");
  });
  const length = form.draft.get(path)?.length ?? 0;
  one.disabled = i + by < 0 || i + by >= length;
  return one;
}

/** @param {Shape} shape @param {Shape} inner @param {boolean} isMap @param {string} name @param {(key: string) => void} add */
function adder(shape, inner, isMap, name, add) {
  const { key: telling, forms } = variants(inner.node);
  if (!isMap && !forms.size) return h("p", { class: "toolbar" }, button(`Add to ${name}`, () => add("")));
  const allowed = isMap ? shape.node["propertyNames"]?.enum : [...forms.keys()];
  const key = allowed ? h("select", null, allowed.map((/** @type {string} */ one) => h("option", null, one))) : h("input", { type: "text", maxlength: 64, spellcheck: "false" });
  const press = () => {
    if (key.value.trim()) add(key.value.trim());
    if (key instanceof HTMLInputElement) key.value = "";
  };
  return h("p", { class: "toolbar" }, h("label", { class: "field" }, isMap ? `New key in ${name}` : `${telling} of a new one`, key), button(`Add to ${name}`, press));
}

/** What a new item starts with: the keys that it has to have. @param {Schema} schema @param {Shape} shape @param {string} [form] of several @returns {Json} */
function blank(schema, shape, form = "") {
  const { kind, node } = formOf(schema, shape, { [variants(shape.node).key]: form });
  if (kind === "choice") return node["enum"][0];
  if (kind === "flag") return false;
  if (kind === "number") return node["minimum"] ?? 0;
  if (kind === "list" || kind === "lines" || kind === "numbers") return [];
  if (kind !== "object") return kind === "map" ? {} : "";
  const needed = /** @type {string[]} */ (node["required"] ?? []);
  return Object.fromEntries(needed.map((name) => [name, node["properties"][name].const ?? node["properties"][name].default ?? blank(schema, shapeOf(schema, node["properties"][name]))]));
}
