// Conductor: whether there is one, its journal where it keeps one, and which screens come later (OBS-092 to OBS-099).

import { getJson } from "../api.js";
import { clear, h } from "../dom.js";
import { box, facts, note, panel } from "../panel.js";
import { modeWords } from "./overview.js";
import { journalRows, journalTable } from "./request.js";

/** @type {[string, string][]} */
const LATER = [
  ["Routing", "classes, efforts and thresholds of the router, and a box that tries them on a message"],
  ["Profiles", "what is switched on for which client, and the roles"],
  ["Packages", "the catalog of what can be put before a model, and the library"],
  ["Monitor", "the tasks that watch an answer, their thresholds and findings"],
  ["Memory", "transcripts by session, and the disk tier"],
  ["Deciders", "the small models that decide, and the questions they get"],
];

/** @param {HTMLElement} root */
function mount(root) {
  const part = panel(
    "the conductor's state",
    "low",
    (signal) => Promise.all([getJson("health", {}, signal), journalRows({ limit: 50 }, signal)]),
    ([health, rows]) => [
      facts([["Mode", modeWords(health.conductor?.mode)], ["Routes", rows ? "● answering" : ["○ no conductor: start the server with ", h("code", null, "--conductor-config"), " to have one"]]]),
      rows && [h("h3", { class: "apart" }, "Newest rows of the journal"), rows.length ? journalTable(rows) : note("The journal is empty.")],
    ],
  );
  clear(root, box("Today", part.node), box("Not here yet", note("Each of these screens comes with the part of the server that it edits or shows:"), facts(LATER)));
  void part.load();
  return part.stop;
}

export const view = { id: "conductor", title: "Conductor", mount };
