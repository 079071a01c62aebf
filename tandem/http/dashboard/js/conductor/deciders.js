// Deciders: the documents of the decision models and of the memory they may claim (OBS-098). No such model is served yet.

import { clear } from "../dom.js";
import { box, note } from "../panel.js";
import { editor } from "./editor.js";

/** @param {HTMLElement} root @param {import("../app.js").App} app */
export function screen(root, app) {
  const parts = [editor({ name: "deciders", app }), editor({ name: "residency", app })];
  const state = box("Decision models", note("None is loaded: this server asks the served model itself, and its class questions are in the decisions. What is stored here counts once decision models are served."));
  clear(root, state, parts.map((part) => part.node));
  return () => parts.forEach((part) => part.stop());
}
