// Settings and roles: what holds for every profile, and which models may do what (OBS-093, ROL-005).

import { clear, h } from "../dom.js";
import { button, note, table } from "../panel.js";
import { words } from "./fields.js";
import { editor } from "./editor.js";

/** @typedef {any} Json */

const COLUMNS = ["kind", "endpoint", "model", "mode", "memory_claim_gib", "window", "latency_budget_ms", "fallback", "writes", "sharing", "may_share"];

/** @param {HTMLElement} root @param {import("../app.js").App} app */
export function screen(root, app) {
  const parts = [editor({ name: "settings", app }), editor({ name: "roles", app, beside: contracts })];
  clear(root, parts.map((part) => part.node));
  return () => parts.forEach((part) => part.stop());
}

/** How the server reads the roles: what their document lacks is filled in, and marked until it is saved. @param {Json} answer @param {import("./draft.js").Draft} draft */
function contracts({ contracts: roles = [] }, draft) {
  const rows = roles.map((/** @type {Json} */ role) => [role.name, ...COLUMNS.map((name) => (role.filled.includes(name) ? h("span", { class: "warn" }, `◆ ${words(role[name])}`) : words(role[name])))]);
  const filled = roles.flatMap((/** @type {Json} */ role) => role.filled.map((/** @type {string} */ name) => ({ path: ["roles", role.name, name], value: role[name] })));
  const write = () => filled.forEach((/** @type {Json} */ { path, value }) => draft.get(path) === undefined && draft.set(path, value));
  return [
    h("h3", null, "As they are read"),
    table("Roles as they are read", ["Role", ...COLUMNS], rows),
    filled.length > 0 && h("div", { class: "toolbar" }, note(`◆ ${filled.length} values are filled in by the server, and not in the document.`), button("Write them into the document", write)),
  ];
}
