// Conductor: its newest decisions, and the screens that edit its documents (OBS-092 to OBS-099).

import { getJson } from "../api.js";
import { decisionTable } from "../decisions.js";
import { clear, h } from "../dom.js";
import { clock, count } from "../format.js";
import { box, button, facts, note, panel, table } from "../panel.js";
import { orNone, sessionTable } from "../sessions.js";
import { modeWords } from "./overview.js";
import { journalRows, journalTable } from "./request.js";

/** @typedef {import("../app.js").App} App */
/** @typedef {(root: HTMLElement, app: App) => () => void} Screen */

/** @type {[string, string, () => Promise<{ screen: Screen }>][]} loaded when they are first asked for */
const SCREENS = [
  ["routing", "Routing", () => import("../conductor/routing.js")],
  ["profiles", "Profiles", () => import("../conductor/profiles.js")],
  ["packages", "Packages", () => import("../conductor/packages.js")],
  ["monitor", "Monitor", () => import("../conductor/monitor.js")],
  ["memory", "Memory", () => import("../conductor/memory.js")],
  ["deciders", "Deciders", () => import("../conductor/deciders.js")],
  ["settings", "Settings", () => import("../conductor/settings.js")],
];
const ROWS = 50;
const SESSIONS = 20;

/** The rules of the editors come with them. @returns {Promise<unknown>} */
const sheet = () => new Promise((done) => document.head.append(h("link", { rel: "stylesheet", href: "css/conductor.css", onload: done, onerror: done })));
/** @type {Promise<unknown> | null} */
let styled = null;

/** @param {HTMLElement} root @param {App} app */
function mount(root, app) {
  const here = app.rest[0] ?? "";
  const body = h("div", { class: "view" });
  clear(root, tabs(here), body);
  let isGone = false;
  /** @type {() => void} */
  let leave = () => {};
  const found = SCREENS.find(([id]) => id === here);
  if (here && !found) clear(body, h("p", { class: "notice warn", role: "alert" }, `Conductor has no screen “${here}”.`));
  else void load(found?.[2]).then(
      (screen) => {
        if (!isGone) leave = screen(body, app);
      },
      (error) => {
        console.warn(error);
        if (!isGone) clear(body, h("p", { class: "notice warn", role: "alert" }, "This screen could not be loaded. The server may have gone, or be another version. ", button("Load the page again", () => location.reload())));
      },
    );
  return () => {
    isGone = true;
    leave();
  };
}

/** @param {(() => Promise<{ screen: Screen }>) | undefined} from */
async function load(from) {
  await (styled ??= sheet());
  return from ? (await from()).screen : overview;
}

/** @param {string} here */
const tabs = (here) =>
  h(
    "nav",
    { class: "tabs", "aria-label": "Conductor" },
    [["", "Decisions"], ...SCREENS].map(([id, title]) => h("a", { href: id ? `#/conductor/${id}` : "#/conductor", "aria-current": id === here ? "page" : null }, String(title))),
  );

/** @type {Screen} */
function overview(root) {
  const state = panel(
    "the conductor's state",
    "low",
    (signal) => Promise.all([getJson("health", {}, signal), journalRows({ limit: ROWS }, signal)]),
    ([health, rows]) => [
      facts([["Mode", modeWords(health.conductor?.mode)], ["Routes", rows ? "● answering" : ["○ no conductor: start the server with ", h("code", null, "--conductor-config"), " to have one"]]]),
      rows && [h("h3", { class: "apart" }, "Decisions"), decided(rows), h("h3", { class: "apart" }, "Newest rows of the journal"), rows.length ? journalTable(rows) : note("The journal is empty.")],
    ],
  );
  const documents = panel("the documents", "low", (signal) => orNone(getJson("v1/conductor/config", {}, signal)), (answer) => (answer ? documentTable(answer.documents) : note("There is none.")));
  const sessions = panel("the sessions", "low", (signal) => orNone(getJson("v1/conductor/sessions", { limit: SESSIONS }, signal)), (answer) => (answer?.sessions.length ? sessionTable(answer.sessions) : note("There is none.")));
  const parts = [state, sessions, documents];
  const load = () => parts.forEach((part) => void part.load());
  clear(
    root,
    box("Today", h("p", { class: "toolbar" }, button("Refresh", load)), state.node),
    box("Newest sessions", sessions.node),
    box("Documents", documents.node),
  );
  load();
  return () => parts.forEach((part) => part.stop());
}

/** @param {Record<string, any>[]} documents */
const documentTable = (documents) =>
  table(
    "Documents in use",
    ["Document", "#Version", "#Stored", "Since", "Note", "On the disk"],
    documents.map(({ name, version, versions, created, note: said, locked, problem }) => [
      [name, locked && h("small", { class: "muted" }, " ▣ locked")],
      count(version),
      count(versions),
      clock(created),
      h("span", { class: "said" }, said),
      problem ? h("span", { class: "bad" }, `✖ ${problem.file} is not in use: ${problem.path ? `${problem.path}: ` : ""}${problem.message}`) : "● as in use",
    ]),
  );

/** @param {Record<string, any>[]} rows */
function decided(rows) {
  const found = rows.filter((row) => row["kind"] === "route" || row["kind"] === "side");
  return found.length ? decisionTable(found) : note("Nothing has been decided yet.");
}

export const view = { id: "conductor", title: "Conductor", mount };
