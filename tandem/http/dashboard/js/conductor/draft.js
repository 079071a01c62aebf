// A document while it is edited: what was loaded, what it is now, and the paths of both.

/** @typedef {any} Json */
/** @typedef {(string | number)[]} Path */

export class Draft {
  /**
   * @param {Json} base as it was loaded
   * @param {number} version of `base`
   */
  constructor(base, version) {
    this.base = base;
    this.version = version;
    /** @type {Json} */
    this.value = structuredClone(base);
    /** @type {Set<() => void>} */
    this.readers = new Set();
  }

  get isChanged() {
    return !same(this.base, this.value);
  }

  /** What stands there; undefined where nothing does. @param {Path} path @returns {Json} */
  get(path) {
    return at(this.value, path);
  }

  /** Whether it differs there from what was loaded. @param {Path} path */
  differs(path) {
    return !same(at(this.base, path), at(this.value, path));
  }

  /** undefined takes the key away, and with it sections that were made for it alone. @param {Path} path @param {Json} next */
  set(path, next) {
    if (path.length === 0) this.value = next;
    else this.put(path, next);
    for (const read of this.readers) read();
  }

  /** @param {Path} path @param {Json} next */
  put(path, next) {
    const last = path[path.length - 1] ?? "";
    const above = path.slice(0, -1);
    if (next === undefined) return this.drop(above, last);
    let node = this.value;
    for (const key of above) {
      if (!isTree(node[key])) own(node, key, {});
      node = node[key];
    }
    own(node, last, next);
  }

  /** @param {Path} above @param {string | number} key */
  drop(above, key) {
    const node = at(this.value, above);
    if (!isTree(node)) return;
    delete node[key];
    const isOurs = above.length > 0 && typeof above[above.length - 1] === "string" && at(this.base, above) === undefined;
    if (isOurs && !Array.isArray(node) && Object.keys(node).length === 0) this.put(above, undefined);
  }

  reset() {
    this.set([], structuredClone(this.base));
  }
}

/** A key called __proto__ is a key like any other. @param {Json} node @param {string | number} key @param {Json} value */
export function own(node, key, value) {
  Object.defineProperty(node, key, { value, enumerable: true, configurable: true, writable: true });
}

/** @param {Json} value */
const isTree = (value) => typeof value === "object" && value !== null;

/** @param {Json} tree @param {Path} path @returns {Json} */
export function at(tree, path) {
  let node = tree;
  for (const key of path) {
    if (!isTree(node) || !Object.hasOwn(node, key)) return undefined;
    node = node[key];
  }
  return node;
}

/** As the server writes a path: classes[2].id. @param {Path} path */
export const pathText = (path) => path.map((key, i) => (typeof key === "number" ? `[${key}]` : (i ? "." : "") + key)).join("");

/** Equal as JSON, whatever the order of keys. @param {Json} one @param {Json} other @returns {boolean} */
export function same(one, other) {
  if (!isTree(one) || !isTree(other)) return one === other;
  if (Array.isArray(one) !== Array.isArray(other)) return false;
  const keys = Object.keys(one);
  return keys.length === Object.keys(other).length && keys.every((key) => Object.hasOwn(other, key) && same(one[key], other[key]));
}
