// A glyph for each state, always beside its word: colour alone says nothing.

import { svg } from "./dom.js";

/** @type {Record<string, string>} drawn in a square of 16 */
const PATHS = {
  arriving: "M2 8h9M8 4l4 4-4 4M14 3v10",
  queued: "M8 1.8a6.2 6.2 0 1 1 0 12.4A6.2 6.2 0 0 1 8 1.8M8 4.5V8l2.5 1.8",
  prefilling: "M3 3h10M3 6.5h10M3 10h6M12.5 9v5M10.5 12l2 2 2-2",
  replaying: "M13 8a5 5 0 1 1-1.6-3.6M13 2v3h-3",
  thinking: "M8 2.5c3.3 0 6 1.9 6 4.4s-2.7 4.4-6 4.4l-3.5 2.4.4-3C3 9.8 2 8.5 2 6.900c0-2.5 2.7-4.4 6-4.400M5.5 7h.01M8 7h.01M10.5 7h.01",
  writing: "M3 13l.7-3L11 2.700l2.3 2.300L6 12.3 3 13M9.5 4.200l2.3 2.3",
  tool_call: "M6 3 2 8l4 5M10 3l4 5-4 5",
  ok: "M3 8.5 6.5 12 13 4.5",
  warn: "M8 2 14.5 13.500h-13L8 2M8 6.500v3M8 11.600h.01",
  bad: "M4 4l8 8M12 4l-8 8",
  idle: "M5.5 4v8M10.5 4v8",
  busy: "M5 3l8 5-8 5z",
  draining: "M3 3h10L9.5 8v5l-3-2V8z",
  none: "M4 8h8",
};
/** @type {Record<string, string>} */
const ALIAS = { closing_reasoning: "thinking", finishing: "writing", done: "ok", waiting_for_client: "queued", own: "busy", memory: "queued", gone: "bad" };

/** @param {string} state */
const path = (state) => PATHS[ALIAS[state] ?? state] ?? PATHS["none"] ?? "";

/** @param {string} state */
export function icon(state) {
  return svg("svg", { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true", focusable: "false" }, svg("path", { d: path(state) }));
}

/** Turns an icon into another one, without a new element. @param {Element} node @param {string} state */
export function setIcon(node, state) {
  const d = path(state);
  const line = node.firstElementChild;
  if (line && line.getAttribute("d") !== d) line.setAttribute("d", d);
}
