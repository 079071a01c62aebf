// The editor of one document: its form, what changed, saving with a note, and the versions with restore (OBS-078).

import { ApiFault, getJson, sendJson } from "../api.js";
import { h } from "../dom.js";
import { clock } from "../format.js";
import { box, button, note, panel } from "../panel.js";
import { applied, differences } from "./diff.js";
import { Draft } from "./draft.js";
import { reveal } from "./fields.js";
import { Form } from "./form.js";
import { ask, tellChanges } from "./review.js";

/** @typedef {any} Json */
/** @typedef {import("../dom.js").Child} Child */
/**
 * @typedef {object} Editing
 * @property {string} name the document's path in the API: router, profiles/coding
 * @property {import("../app.js").App} app
 * @property {boolean} [isLocked]
 * @property {(document: Json) => { path: import("./draft.js").Path, part: Json } | null} [focus] only this part of it; null: it is not there
 * @property {(answer: Json, draft: Draft) => Child} [beside] shown above the form
 * @property {() => void} [saved] called once there is a new version
 */

/** What is not saved yet stays while other screens are looked at. @type {Map<string, Draft>} */
const drafts = new Map();

window.addEventListener("beforeunload", (event) => {
  if ([...drafts.values()].some((draft) => draft.isChanged)) event.preventDefault();
});

/** @param {string} name */
const route = (name) => `v1/conductor/${name.split("/").map(encodeURIComponent).join("/")}`;

/** @param {Editing} editing */
export function editor({ name, app, isLocked = false, focus, beside, saved: tell }) {
  const kind = name.split("/")[0] ?? name;
  /** @type {() => void} */
  let leave = () => {};
  const part = panel(
    `the document ${name}`,
    "high",
    (signal) => Promise.all([getJson(route(name), {}, signal), getJson(`v1/conductor/schemas/${kind}`, {}, signal), getJson(`${route(name)}/versions`, {}, signal)]),
    ([answer, schema, { versions }]) => {
      leave();
      const draft = drafted(name, answer);
      const form = new Form(schema, draft, isLocked);
      const bar = saveBar(draft, { review: () => review(form, draft), discard: () => discard(draft) });
      leave = () => {
        form.stop();
        bar.stop();
      };
      const wanted = focus ? focus(draft.value) : { path: [], part: schema.$ref ? { $ref: schema.$ref } : schema };
      const about = answer.version === 0 ? note(answer.note || "Nothing is stored yet.") : h("p", { class: "muted" }, `Version ${answer.version}, ${clock(answer.created)}: `, h("span", { class: "said" }, answer.note || "no note"));
      return [
        about,
        draft.version !== answer.version && stale(answer.version, draft),
        isLocked && h("p", { class: "notice" }, "▣ This profile is locked: it can be read, and not changed."),
        beside?.(answer, draft),
        wanted ? form.show(wanted.part, wanted.path) : note("It is not in the document."),
        !isLocked && bar.node,
        history(versions, answer),
      ];
    },
  );

  /** @param {Draft} draft */
  const discard = (draft) => {
    drafts.delete(name);
    draft.reset();
    void part.load();
  };

  /** @param {number} version @param {Draft} draft */
  const stale = (version, draft) =>
    h("p", { class: "notice warn" }, `▲ Your changes were made to version ${draft.version}; version ${version} has been saved since. Saving shows how they fit.`);

  /** @param {string} words */
  const done = async (words) => {
    drafts.delete(name);
    app.announce(words);
    tell?.();
    await part.load();
  };

  /** @param {Form} form @param {Draft} draft */
  const review = (form, draft) => {
    const close = ask({
      title: `Save ${name}`,
      action: "Save",
      changes: differences(draft.base, draft.value),
      send: async (said) => {
        const saved = await sendJson("PUT", route(name), { document: draft.value, note: said, base_version: draft.version });
        await done(`Saved as version ${saved.version}`);
      },
      refused: (fault) => {
        if (fault.status === 409) return !isLocked && button("Load the newer version, with my changes on it", () => void rebase(draft, close));
        const where = fault.param?.replace(/^document\.?/, "") ?? "";
        if (fault.status !== 400 || !fault.param?.startsWith("document")) return null;
        form.refuse(where, fault.message);
        return button("Go to the key", () => {
          close();
          form.refuse(where, fault.message);
          reveal(form.node, where);
        });
      },
    });
  };

  /** Somebody else saved: their version, with the keys of this page's changes on it. Nothing is saved by this. @param {Draft} draft @param {() => void} close */
  const rebase = async (draft, close) => {
    const answer = await getJson(route(name));
    const next = new Draft(answer.document ?? {}, answer.version);
    next.value = applied(next.base, differences(draft.base, draft.value));
    drafts.set(name, next);
    close();
    app.announce(`Version ${answer.version} is loaded, with your changes on it`);
    await part.load();
  };

  /** @param {Json[]} versions @param {Json} current */
  const history = (versions, current) =>
    h(
      "details",
      { class: "section" },
      h("summary", null, h("strong", null, "Versions"), h("span", { class: "muted" }, ` ${versions.length} stored`)),
      h("ol", { class: "versions" }, versions.map((one) => h("li", null, versionWords(one), one.version !== current.version && button(`Compare and restore ${one.version}`, () => void compare(one.version, current))))),
    );

  /** @param {number} version @param {Json} current */
  const compare = async (version, current) => {
    /** @type {Json} */
    let old;
    try {
      old = await getJson(route(name), { version });
    } catch (error) {
      if (!(error instanceof ApiFault)) throw error;
      return app.announce(error.message);
    }
    ask({
      title: `Restore version ${version} of ${name}`,
      action: "Restore",
      hint: isLocked && h("p", { class: "notice" }, "▣ Locked: the server will refuse it."),
      changes: differences(current.document ?? {}, old.document ?? {}),
      send: async (said) => {
        const saved = await sendJson("POST", `${route(name)}/restore`, { version, note: said });
        await done(`Version ${version} is in use again, as version ${saved.version}`);
      },
    });
  };

  const node = box(name, part.node);
  void part.load();
  return {
    node,
    load: part.load,
    stop() {
      part.stop();
      leave();
    },
  };
}

/** @param {string} name @param {Json} answer */
function drafted(name, answer) {
  const kept = drafts.get(name);
  if (kept?.isChanged) return kept;
  const draft = new Draft(answer.document ?? {}, answer.version);
  drafts.set(name, draft);
  return draft;
}

/** @param {Json} one */
function versionWords({ version, note: said, created, restored_from }) {
  const from = restored_from === null ? "" : ` (restores ${restored_from})`;
  return [h("strong", null, `Version ${version}`), h("span", { class: "muted" }, ` ${clock(created)}${from} `), h("span", { class: "said" }, said), " "];
}

/** Stays at the lower edge, as high with changes as without. @param {Draft} draft @param {{ review: () => void, discard: () => void }} press */
function saveBar(draft, { review, discard }) {
  const words = h("span", { role: "status", class: "save-words" });
  const save = h("button", { type: "button", class: "primary", onclick: review }, "Review and save");
  const drop = button("Discard", discard);
  const node = h("p", { class: "save-bar" }, words, save, drop);
  const refresh = () => {
    const many = differences(draft.base, draft.value).length;
    tellChanges(words, many, draft.version);
    save.disabled = drop.disabled = many === 0;
  };
  draft.readers.add(refresh);
  refresh();
  return { node, stop: () => void draft.readers.delete(refresh) };
}

/** Starts a document from another one's text. @param {string} name @param {Json} document @param {(version: number) => void} saved */
export function create(name, document, saved) {
  ask({
    title: `New ${name}`,
    action: "Save",
    changes: differences({}, document),
    send: async (said) => saved((await sendJson("PUT", route(name), { document, note: said, base_version: 0 })).version),
  });
}
