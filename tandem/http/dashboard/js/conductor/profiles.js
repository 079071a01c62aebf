// Profiles: what is switched on for which client; those that are locked can only be read (OBS-093).

import { getJson } from "../api.js";
import { clear, h } from "../dom.js";
import { count } from "../format.js";
import { button, note, panel, table } from "../panel.js";
import { create, editor } from "./editor.js";

const HOME = "#/conductor/profiles/";
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

/** @param {HTMLElement} root @param {import("../app.js").App} app */
export function screen(root, app) {
  const place = h("div");
  /** @type {ReturnType<typeof editor> | null} */
  let shown = null;
  const tasks = panel("what its tasks found", "low", (signal) => getJson("v1/conductor/overview", { profile: wanted() }, signal), found);
  let profile = "";
  const wanted = () => profile;
  const list = panel("the profiles", "low", (signal) => getJson("v1/conductor/config", {}, signal), ({ documents }) => {
    const profiles = documents.filter((/** @type {any} */ one) => one.name.startsWith("profiles/")).map((/** @type {any} */ one) => ({ ...one, short: one.name.slice("profiles/".length) }));
    const wanted = app.rest[1] ?? profiles.find((/** @type {any} */ one) => !one.locked)?.short;
    const here = profiles.find((/** @type {any} */ one) => one.short === wanted);
    shown?.stop();
    profile = here?.short ?? "";
    if (here) void tasks.load();
    shown = here ? editor({ name: here.name, app, isLocked: here.locked, beside: (_, draft) => [copier(draft, app), tasks.node] }) : null;
    clear(place, shown ? shown.node : note(`There is no profile ${wanted ?? "here"}.`));
    return links(profiles, wanted);
  });
  clear(root, h("nav", { class: "panel", "aria-label": "Profiles" }, list.node), place);
  void list.load();
  return () => {
    list.stop();
    tasks.stop();
    shown?.stop();
  };
}

/** What the monitor's tasks found under it in 7 days (OBS-094); a task that is not named found nothing. @param {any} answer */
function found({ week }) {
  if (!week.tasks.length) return note("No task of the monitor has found anything under it in 7 days.");
  return table("Findings in 7 days", ["Task", "#Found", "#Acted", "#In shadow"], week.tasks.map((/** @type {any} */ one) => [one.task, count(one.findings), count(one.acted), count(one.shadow)]));
}

/** @param {any[]} profiles @param {string | undefined} wanted */
const links = (profiles, wanted) =>
  h(
    "ul",
    { class: "names" },
    profiles.map(({ short, version, locked, problem }) =>
      h("li", null, h("a", { href: HOME + encodeURIComponent(short), "aria-current": short === wanted ? "page" : null }, short), h("small", { class: "muted" }, ` v${version}${locked ? " ▣ locked" : ""}`), problem && h("small", { class: "bad" }, ` ✖ ${problem.message}`)),
    ),
  );

/** A new profile with this one's values; the clients stay with this one. @param {import("./draft.js").Draft} draft @param {import("../app.js").App} app */
function copier(draft, app) {
  const name = h("input", { type: "text", maxlength: 64, spellcheck: "false", autocomplete: "off", pattern: NAME.source });
  const press = () => {
    if (!NAME.test(name.value)) return void name.reportValidity();
    const { clients: _, locked: __, ...rest } = draft.base;
    create(`profiles/${name.value}`, { ...rest, clients: [] }, () => app.go(HOME + encodeURIComponent(name.value)));
  };
  return h("details", { class: "small" }, h("summary", null, "New profile with the values of this one"), h("p", { class: "toolbar" }, h("label", { class: "field" }, "Its name", name), button("Continue", press)));
}
