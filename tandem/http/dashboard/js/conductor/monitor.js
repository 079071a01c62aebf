// Monitor: its document, as JSON until its keys have a schema. What it finds and how often it acts comes with the monitor (OBS-096).

import { clear } from "../dom.js";
import { editor } from "./editor.js";

/** @param {HTMLElement} root @param {import("../app.js").App} app */
export function screen(root, app) {
  const part = editor({ name: "monitor", app });
  clear(root, part.node);
  return part.stop;
}
