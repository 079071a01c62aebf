// What differs between two versions of a document, key by key. Items with an id or a name are known by it, so one that
// is new at the top does not make the others look changed.

import { own, same } from "./draft.js";

/** @typedef {any} Json */
/** @typedef {{ path: string[], before: Json, after: Json }} Change undefined: it is not there */

const ORDER = "(order)";
const ITEM = /^\[(.*)\]$/s;

/** @param {Json} value */
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** @param {Json} item @returns {string | undefined} */
const idOf = (item) => item?.id ?? item?.name;

/** The items by their id; null where some have none or share one. @param {Json} list @returns {Map<string, Json> | null} */
function byId(list) {
  if (!Array.isArray(list) || !list.every((item) => isObject(item) && typeof idOf(item) === "string")) return null;
  const found = new Map(list.map((item) => [String(idOf(item)), item]));
  return found.size === list.length ? found : null;
}

/** @param {Json} before @param {Json} after @param {string[]} [path] @returns {Change[]} */
export function differences(before, after, path = []) {
  if (same(before, after)) return [];
  if (isObject(before) && isObject(after)) {
    const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])];
    return keys.flatMap((key) => differences(mine(before, key), mine(after, key), [...path, key]));
  }
  const [old, next] = [byId(before), byId(after)];
  if (!old || !next) return [{ path, before, after }];
  const ids = [...new Set([...old.keys(), ...next.keys()])];
  const found = ids.flatMap((id) => differences(old.get(id), next.get(id), [...path, `[${id}]`]));
  const stayed = (/** @type {Map<string, Json>} */ one, /** @type {Map<string, Json>} */ other) => [...one.keys()].filter((id) => other.has(id));
  if (!same(stayed(old, next), stayed(next, old))) found.push({ path: [...path, ORDER], before: [...old.keys()], after: [...next.keys()] });
  return found;
}

/** @param {Json} tree @param {string} key @returns {Json} */
const mine = (tree, key) => (Object.hasOwn(tree, key) ? tree[key] : undefined);

/** The changes, made to another version of the document. @param {Json} document @param {Change[]} changes @returns {Json} */
export function applied(document, changes) {
  const copy = structuredClone(document);
  for (const change of changes) {
    if (change.path.length === 0) return structuredClone(change.after);
    make(copy, change);
  }
  return copy;
}

/** @param {Json} tree @param {Change} change */
function make(tree, { path, after }) {
  let node = tree;
  for (const [i, key] of path.entries()) {
    if (key === ORDER && Array.isArray(node)) return void node.sort((one, other) => rank(after, one) - rank(after, other));
    const isLast = i === path.length - 1;
    const place = Array.isArray(node) ? node.findIndex((item) => idOf(item) === ITEM.exec(key)?.[1]) : key;
    if (isLast) return void write(node, place, after);
    const next = node[place];
    if (typeof next !== "object" || next === null) {
      if (after === undefined || place === -1) return; // it is gone there already
      own(node, place, {});
    }
    node = node[place];
  }
}

/** @param {string[]} order @param {Json} item */
function rank(order, item) {
  const found = order.indexOf(String(idOf(item)));
  return found === -1 ? order.length : found;
}

/** @param {Json} node @param {string | number} place @param {Json} value */
function write(node, place, value) {
  if (!Array.isArray(node)) {
    if (value === undefined) delete node[place];
    else own(node, place, structuredClone(value));
  } else if (value !== undefined) node.splice(place === -1 ? node.length : Number(place), place === -1 ? 0 : 1, structuredClone(value));
  else if (place !== -1) node.splice(Number(place), 1);
}

/** classes[chat].effort. @param {string[]} path */
export const wordsOf = (path) => path.map((key, i) => (i && !ITEM.test(key) ? `.${key}` : key)).join("") || "the document";

/** Of two long texts the lines that differ, with one on each side. @param {string} before @param {string} after @returns {[string, string]} */
export function excerpts(before, after) {
  const [old, next] = [before.split("\n"), after.split("\n")];
  let head = 0;
  while (head < Math.min(old.length, next.length) && old[head] === next[head]) head += 1;
  let tail = 0;
  while (tail < Math.min(old.length, next.length) - head && old[old.length - 1 - tail] === next[next.length - 1 - tail]) tail += 1;
  const cut = (/** @type {string[]} */ lines) => {
    const from = Math.max(0, head - 1);
    const to = Math.min(lines.length, lines.length - tail + 1);
    return `${from ? "…\n" : ""}${lines.slice(from, to).join("\n")}${to < lines.length ? "\n…" : ""}`;
  };
  return [cut(old), cut(next)];
}
