// Packages: the catalog, one item with its parts and its use, and the editor, which counts tokens as the server does
// (OBS-095).

import { ApiFault, getJson, sendJson } from "../api.js";
import { clear, h, text } from "../dom.js";
import { clock, count } from "../format.js";
import { box, facts, note, panel, table } from "../panel.js";
import { editor } from "./editor.js";

/** @typedef {any} Json */
/** @typedef {import("../dom.js").Child} Child */

const HOME = "#/conductor/packages/";
const TYPING_MS = 500;
const PARTS = [["inserted", "As inserted"], ["body", "Its text"], ["frontmatter", "Frontmatter"], ["reference", "Reference, never inserted"]];
const NO_USE = { inserted_day: 0, inserted_week: 0, would_day: 0, would_week: 0 };

/** @param {HTMLElement} root @param {import("../app.js").App} app */
export function screen(root, app) {
  const name = app.rest[1];
  return name === undefined ? all(root, app) : one(root, app, name);
}

/** @param {HTMLElement} root @param {import("../app.js").App} app */
function all(root, app) {
  const list = panel(
    "the catalog",
    "high",
    (signal) => Promise.all([getJson("v1/conductor/packages/catalog", {}, signal), getJson("v1/conductor/packages/usage", {}, signal)]),
    ([{ packages, version, counted }, { packages: used }]) => [
      note(`Version ${version} of the document; tokens ${counted === "engine" ? "by the engine's tokenizer" : "estimated"}. Use: times it went into a prompt, and in brackets times that shadow would have put it there.`),
      packages.length ? catalog(packages, used) : note("There is no package."),
    ],
  );
  const document = editor({ name: "packages", app, saved: () => void list.load() });
  clear(root, box("Catalog", list.node), document.node);
  void list.load();
  return () => {
    list.stop();
    document.stop();
  };
}

/** @param {Json[]} packages @param {Record<string, typeof NO_USE>} used */
const catalog = (packages, used) =>
  table(
    "Packages",
    ["Package", "Category", "Source", "#Tokens", "#Limit", "Classes", "Profiles", "#24 h", "#7 days"],
    packages.map((each) => {
      const { inserted_day, inserted_week, would_day, would_week } = used[each.name] ?? NO_USE;
      const marks = [!each.enabled && "○ off", each.general && "general", !each.has_text && "▲ no text"].filter(Boolean).join(", ");
      return [
        [h("a", { href: HOME + encodeURIComponent(each.name) }, each.name), marks && h("small", { class: "muted" }, ` ${marks}`)],
        each.category,
        each.source,
        count(each.tokens),
        each.over ? h("span", { class: "warn" }, `▲ ${count(each.limit)}, cut from ${count(each.tokens_whole)}`) : count(each.limit),
        classesOf(each),
        profilesOf(each),
        `${count(inserted_day)} (${count(would_day)})`,
        `${count(inserted_week)} (${count(would_week)})`,
      ];
    }),
  );

/** @param {Json} entry */
const classesOf = ({ classes, core }) => classes.map((/** @type {string} */ name) => (core.includes(name) ? `${name} (core)` : name)).join(", ") || "none";

/** @param {Json} entry */
const profilesOf = ({ routings }) => routings.map((/** @type {Json} */ each) => `${each.profile}: ${each.class_id}`).join(", ") || "none of their own";

/** @param {HTMLElement} root @param {import("../app.js").App} app @param {string} name */
function one(root, app, name) {
  const item = panel(
    "the package",
    "mid",
    (signal) => Promise.all([found(name, signal), getJson("v1/conductor/packages/usage", { name, limit: 50 }, signal)]),
    ([detail, usage]) => (detail ? parts(detail, usage) : note("The document in use has no package of that name.")),
  );
  const counter = tokenCounter();
  const document = editor({
    name: "packages",
    app,
    saved: () => void item.load(),
    focus: (value) => {
      const at = (value.packages ?? []).findIndex((/** @type {Json} */ each) => each.name === name);
      return at === -1 ? null : { path: ["packages", at], part: { $ref: "#/$defs/Package" } };
    },
    beside: (_, draft) => counter.watch(draft, name),
  });
  clear(root, h("p", { class: "toolbar" }, h("a", { href: "#/conductor/packages" }, "← All packages")), box(name, item.node), document.node);
  void item.load();
  return () => {
    item.stop();
    counter.stop();
    document.stop();
  };
}

/** null: there is none. @param {string} name @param {AbortSignal} signal @returns {Promise<Json>} */
async function found(name, signal) {
  try {
    return await getJson(`v1/conductor/packages/item/${encodeURIComponent(name)}`, {}, signal);
  } catch (error) {
    if (error instanceof ApiFault && error.status === 404) return null;
    throw error;
  }
}

/** @param {Json} detail @param {Json} usage */
function parts(detail, { packages, rows }) {
  const entry = detail.package;
  const use = packages[entry.name] ?? NO_USE;
  return [
    facts([["What for", entry.description], ["Category", entry.category], ["Source", entry.source], ["Tokens", `${count(entry.tokens)} of ${count(entry.limit)}${entry.over ? `, ▲ cut from ${count(entry.tokens_whole)}` : ""}`], ["Needs tools", entry.requires_tools?.join(", ") || (entry.requires_tools ? "none" : "as its text says")], ["Fallback", entry.fallback ?? "none"], ["Classes", classesOf(entry)], ["Profiles", profilesOf(entry)], ["Used", `${count(use.inserted_day)} in 24 h, ${count(use.inserted_week)} in 7 days; in shadow ${count(use.would_day)} and ${count(use.would_week)}`]]),
    detail.similar.length > 0 && note(`Nearest: ${detail.similar.map((/** @type {Json} */ each) => each.name).join(", ")}`),
    PARTS.map(([key = "", title]) => textOf(detail[key], title)),
    rows?.length > 0 && [h("h3", { class: "apart" }, "Newest turns with it"), table("Turns", ["Time", "Profile", "Class", "How"], rows.map((/** @type {Json} */ row) => [row.request_id ? h("a", { href: `#/dev/request/${encodeURIComponent(row.request_id)}` }, clock(row.ts_ms)) : clock(row.ts_ms), row.profile, row.class_id, row.how]))],
  ];
}

/** @param {Json} part @param {string | undefined} title @returns {Child} */
function textOf(part, title) {
  const words = typeof part === "string" ? part : part?.text;
  if (!words) return null;
  return h("details", { class: "section" }, h("summary", null, h("strong", null, title), part.tokens !== undefined && h("span", { class: "muted" }, ` ${count(part.tokens)} tokens`)), h("pre", { class: "said whole", tabindex: "0" }, words));
}

/** Counts the edited text at the server, a moment after the last key. */
function tokenCounter() {
  const node = h("p", { class: "muted token-count", role: "status" }, "\u00a0");
  let turn = new AbortController();
  let timer = 0;
  let leave = () => {};
  /** @param {Json} entry */
  const ask = async ({ text: typed, max_tokens }) => {
    turn.abort();
    const { signal } = (turn = new AbortController());
    try {
      const { tokens } = await sendJson("POST", "v1/conductor/packages/tokens", { texts: [typed.trimEnd()] }, signal);
      const isOver = tokens[0] > max_tokens;
      node.classList.toggle("warn", isOver);
      text(node, `${isOver ? "▲ " : ""}The text below has ${count(tokens[0])} tokens; its limit is ${count(max_tokens)}.`);
    } catch (error) {
      if (!signal.aborted) text(node, error instanceof ApiFault ? error.message : "Not counted.");
    }
  };
  return {
    /** @param {import("./draft.js").Draft} draft @param {string} name */
    watch(draft, name) {
      leave();
      const place = (draft.value.packages ?? []).findIndex((/** @type {Json} */ each) => each.name === name);
      let last = "";
      const read = () => {
        const entry = draft.get(["packages", place]);
        const key = JSON.stringify([entry?.text, entry?.max_tokens]);
        if (typeof entry?.text !== "string" || key === last) return;
        last = key;
        window.clearTimeout(timer);
        timer = window.setTimeout(() => void ask(entry), TYPING_MS);
      };
      draft.readers.add(read);
      leave = () => void draft.readers.delete(read);
      read();
      return node;
    },
    stop() {
      leave();
      turn.abort();
      window.clearTimeout(timer);
    },
  };
}
