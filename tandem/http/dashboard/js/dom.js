// Makes elements. A string becomes a text node, always: nothing from a request is ever read as markup.

const SVG = "http://www.w3.org/2000/svg";

/** @typedef {Node | string | number | null | undefined | false | Child[]} Child */
/** @typedef {Record<string, any>} Attrs */

/**
 * An HTML element. `attrs`: `class`, `dataset`, `on…` functions, properties such as `value`, anything else an attribute;
 * null, undefined and false leave an attribute out, true sets it empty.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Attrs | null} [attrs]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function h(tag, attrs, ...children) {
  const node = document.createElement(tag);
  dress(node, attrs ?? {});
  add(node, children);
  return node;
}

/**
 * An SVG element; `attrs` as for `h`.
 * @template {keyof SVGElementTagNameMap} T
 * @param {T} tag
 * @param {Attrs | null} [attrs]
 * @param {...Child} children
 * @returns {SVGElementTagNameMap[T]}
 */
export function svg(tag, attrs, ...children) {
  const node = document.createElementNS(SVG, tag);
  dress(node, attrs ?? {});
  add(node, children);
  return node;
}

/**
 * Takes every child away, and puts `children` in their place.
 * @template {Element} N
 * @param {N} node
 * @param {...Child} children
 * @returns {N}
 */
export function clear(node, ...children) {
  node.replaceChildren();
  add(node, children);
  return node;
}

/**
 * Changes a node's text, without touching the document where it is the same.
 * @param {Node} node
 * @param {string | number} value
 */
export function text(node, value) {
  const next = String(value);
  if (node.textContent !== next) node.textContent = next;
}

/**
 * @param {Element} node
 * @param {Child[]} children
 */
function add(node, children) {
  for (const child of children) {
    if (Array.isArray(child)) add(node, child);
    else if (child instanceof Node) node.append(child);
    else if (child !== null && child !== undefined && child !== false) node.append(String(child));
  }
}

/** Set as properties: as attributes they would only be what a form starts with. */
const PROPERTIES = new Set(["value", "checked", "disabled", "selected", "open", "hidden", "indeterminate"]);

/**
 * @param {HTMLElement | SVGElement} node
 * @param {Attrs} attrs
 */
function dress(node, attrs) {
  for (const [name, value] of Object.entries(attrs)) {
    if (name.startsWith("on")) {
      if (typeof value === "function") node.addEventListener(name.slice(2).toLowerCase(), value);
    } else if (value === null || value === undefined || value === false) continue;
    else if (name === "class") node.setAttribute("class", String(value));
    else if (name === "dataset") Object.assign(node.dataset, value);
    else if (name === "href" || name === "src") node.setAttribute(name, address(String(value)));
    else if (name === "style" || name === "srcdoc") throw new TypeError(`${name} is no attribute of this page`);
    else if (PROPERTIES.has(name) && name in node) Object.assign(node, { [name]: value });
    else node.setAttribute(name, value === true ? "" : String(value));
  }
}

/**
 * The address where it is one that a link may go to: http, https, within the page, or relative; else "#".
 * @param {string} value
 */
export function address(value) {
  if (value.startsWith("#")) return value;
  try {
    const { protocol } = new URL(value, document.baseURI);
    return protocol === "http:" || protocol === "https:" ? value : "#";
  } catch {
    return "#";
  }
}
