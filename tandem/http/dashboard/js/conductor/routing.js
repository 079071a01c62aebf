// Routing: the router document, and a box that tries it on a message (OBS-092).

import { getJson } from "../api.js";
import { clear, h } from "../dom.js";
import { editor } from "./editor.js";
import { testBox } from "./testbox.js";

/** @param {HTMLElement} root @param {import("../app.js").App} app */
export function screen(root, app) {
  const router = editor({ name: "router", app });
  const place = h("div");
  const control = new AbortController();
  /** @type {{ stop: () => void }[]} */
  const parts = [router];
  const put = (/** @type {string[]} */ profiles) => {
    const tests = testBox(profiles);
    parts.push(tests);
    clear(place, tests.node);
  };
  clear(root, place, router.node);
  void profileNames(control.signal).then(put, () => control.signal.aborted || put([]));
  return () => {
    control.abort();
    parts.forEach((part) => part.stop());
  };
}

/** @param {AbortSignal} signal @returns {Promise<string[]>} */
async function profileNames(signal) {
  /** @type {{ documents: { name: string }[] }} */
  const { documents } = await getJson("v1/conductor/config", {}, signal);
  return documents.map((one) => one.name).filter((name) => name.startsWith("profiles/")).map((name) => name.slice("profiles/".length));
}
