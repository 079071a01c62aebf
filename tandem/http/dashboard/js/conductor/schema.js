// What a form is built from: the kind of field that a part of a JSON Schema asks for. It reads the keywords that the
// server's own schemas use; a part that it does not understand is edited as JSON.

/** @typedef {any} Json */
/** @typedef {Record<string, any>} Schema */
/** @typedef {"object" | "map" | "list" | "lines" | "numbers" | "choice" | "flag" | "number" | "text" | "json"} Kind */
/**
 * @typedef {object} Shape
 * @property {Kind} kind
 * @property {Schema} node without references and null
 * @property {string} help
 * @property {Json} absent what it means where the key is not there; undefined: it has to be there
 * @property {boolean} isNullable null is a value of it
 */

/** Efforts and modes in the order that people think of; others as the schema has them. */
const USUAL = ["inherit", "off", "shadow", "on", "act", "low", "medium", "high", "xhigh"];
const LONG_CHARS = 100;

/** @param {Schema} root @param {Schema} part @returns {Schema} */
function followed(root, part) {
  const name = /^#\/\$defs\/(.+)$/.exec(part["$ref"] ?? "")?.[1];
  const target = name === undefined ? undefined : root["$defs"]?.[name];
  return target ? { ...target, ...part, $ref: undefined } : part;
}

/** @param {Schema} root @param {Schema} part @param {boolean} [isNeeded] the key has to be there, whatever the default @returns {Shape} */
export function shapeOf(root, part, isNeeded = false) {
  const named = followed(root, part);
  const help = part["description"] ?? "";
  const kinds = (named["anyOf"] ?? typesOf(named)).map((/** @type {Schema} */ one) => followed(root, one));
  const some = kinds.filter((/** @type {Schema} */ one) => one["type"] !== "null");
  const node = some.length > 0 && some.every((/** @type {Schema} */ one) => one["enum"]) ? { enum: ordered(some.flatMap((/** @type {Schema} */ one) => one["enum"])) } : some[0];
  return { kind: some.length > 1 && !node["enum"] ? "json" : kindOf(root, node), node, help, absent: isNeeded ? undefined : part["default"], isNullable: some.length < kinds.length };
}

/** One for each type that it may have. @param {Schema} node @returns {Schema[]} */
const typesOf = (node) => (Array.isArray(node["type"]) ? node["type"].map((/** @type {string} */ type) => ({ ...node, type })) : [node]);

/** The forms that a section may have, by the value of the key that tells them apart. @param {Schema} node */
export function variants(node) {
  const found = (node["allOf"] ?? []).filter((/** @type {Schema} */ one) => one["if"]?.properties && one["then"]);
  const key = Object.keys(found[0]?.if.properties ?? {})[0] ?? "";
  return { key, forms: new Map(found.map((/** @type {Schema} */ one) => /** @type {[string, Schema]} */ ([one["if"].properties[key].const, one["then"]]))) };
}

/** A section as it is for this value of it. @param {Schema} root @param {Shape} shape @param {Json} value @returns {Shape} */
export function formOf(root, shape, value) {
  const { key, forms } = variants(shape.node);
  const form = forms.get(value?.[key]);
  return form ? shapeOf(root, form) : shape;
}

/** @param {string[]} values */
function ordered(values) {
  const rank = (/** @type {string} */ value) => (USUAL.includes(value) ? USUAL.indexOf(value) : USUAL.length);
  return [...values].sort((one, other) => rank(one) - rank(other));
}

/** @param {Schema} root @param {Schema} node @returns {Kind} */
function kindOf(root, node) {
  if (node["enum"]) return "choice";
  switch (node["type"]) {
    case "boolean":
      return "flag";
    case "integer":
    case "number":
      return "number";
    case "string":
      return "text";
    case "object":
      return node["properties"] ? "object" : typeof node["additionalProperties"] === "object" ? "map" : "json";
    case "array":
      return kindOfItems(root, node);
    default:
      return "json";
  }
}

/** @param {Schema} root @param {Schema} node @returns {Kind} */
function kindOfItems(root, node) {
  if (node["prefixItems"]) return "numbers";
  const { kind } = shapeOf(root, node["items"] ?? {});
  if (kind === "object") return "list";
  return kind === "text" || kind === "choice" ? "lines" : "json";
}

/** Whether a text of this kind may have several lines. @param {Schema} node */
export const isLong = (node) => !node["pattern"] && (node["maxLength"] ?? Infinity) > LONG_CHARS;

/** Whether an empty text is a value of its own there, and not the same as none. @param {Shape} shape */
export function keepsEmpty({ node, absent }) {
  if ((node["minLength"] ?? 0) > 0) return false;
  return absent === undefined || (typeof absent === "string" && absent !== "" && new RegExp(node["pattern"] ?? "", "u").test(""));
}

/** What is allowed there, in words. @param {Schema} node */
export function limits(node) {
  const [names, said] = [node["x-placeholders"] ?? [], allowed(node)];
  return names.length ? `${said} Filled in: ${names.map((/** @type {string} */ name) => `{${name}}`).join(", ")}.`.trim() : said;
}

/** @param {Schema} node */
function allowed({ minimum, maximum, maxLength, items }) {
  if (minimum !== undefined && maximum !== undefined) return `${minimum} to ${maximum}.`;
  if (minimum !== undefined) return `${minimum} or more.`;
  if (items?.enum) return `One a line, of: ${items.enum.join(", ")}.`;
  if (items) return "One a line.";
  return maxLength !== undefined && maxLength <= 1000 ? `At most ${maxLength} characters.` : "";
}
