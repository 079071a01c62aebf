// The last look before a document is saved or restored: what changes, key by key, and why.

import { ApiFault } from "../api.js";
import { clear, h, text } from "../dom.js";
import { button } from "../panel.js";
import { excerpts, wordsOf } from "./diff.js";

/** @typedef {import("./diff.js").Change} Change */

/**
 * @typedef {object} Review
 * @property {string} title
 * @property {string} action what the button says
 * @property {Change[]} changes
 * @property {import("../dom.js").Child} [hint]
 * @property {(note: string) => Promise<void>} send
 * @property {(fault: ApiFault) => import("../dom.js").Child} [refused] more to say about a refusal
 */

const NOTE_CHARS = 500;

/** Shows it over the page; it closes with the save. @param {Review} review */
export function ask({ title, action, changes, hint, send, refused }) {
  const note = h("input", { type: "text", maxlength: NOTE_CHARS, required: true, autocomplete: "off" });
  const alert = h("div", { role: "alert" });
  const save = h("button", { type: "submit", class: "primary" }, action);
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (save.disabled) return;
    save.disabled = true;
    clear(alert);
    try {
      await send(note.value.trim());
      close();
    } catch (error) {
      if (!(error instanceof ApiFault)) throw error;
      const where = error.param?.replace(/^document\.?/, "");
      const more = refused?.(error);
      clear(alert, h("div", { class: "notice bad" }, h("p", null, `✖ Not saved: ${where && where !== "note" ? `${where}: ` : ""}${error.message}`), more && h("p", { class: "toolbar" }, more)));
    } finally {
      save.disabled = changes.length === 0;
    }
  };
  save.disabled = changes.length === 0;
  const form = h(
    "form",
    { onsubmit: submit },
    h("label", { class: "field" }, "Note: why it changes. It stays with the version.", note),
    alert,
    h("p", { class: "toolbar" }, save, button("Back", () => close())),
  );
  const heading = h("h2", { id: "review-title" }, title);
  const close = () => dialog.close();
  const gone = () => {
    window.removeEventListener("hashchange", close);
    dialog.remove();
  };
  const dialog = h("dialog", { class: "review", "aria-labelledby": "review-title", onclose: gone }, heading, hint, changeTable(changes), form);
  document.body.append(dialog);
  dialog.showModal();
  window.addEventListener("hashchange", close);
  note.focus();
  return close;
}

/** @param {Change[]} changes */
export function changeTable(changes) {
  if (!changes.length) return h("p", { class: "empty" }, "Nothing differs.");
  const rows = changes.map(({ path, before, after }) => {
    const isText = typeof before === "string" && typeof after === "string" && (before + after).includes("\n");
    const [old, next] = isText ? excerpts(before, after) : [plain(before), plain(after)];
    return h("tr", null, h("th", { scope: "row" }, h("code", null, wordsOf(path))), cell("was", before, old), cell("now", after, next));
  });
  const head = ["Key", "− Before", "+ After"].map((name) => h("th", { scope: "col" }, name));
  return h("div", { class: "table-wrap changes", tabindex: "0", role: "region", "aria-label": "Changes" }, h("table", null, h("thead", null, h("tr", null, head)), h("tbody", null, rows)));
}

/** @param {string} kind @param {any} value @param {string} words */
const cell = (kind, value, words) => h("td", { class: kind }, value === undefined ? h("span", { class: "muted" }, "not there") : h("pre", null, words));

/** @param {any} value */
function plain(value) {
  if (typeof value === "string") return value === "" ? "“”" : value;
  return JSON.stringify(value, null, 1) ?? "";
}

/** How many, in words. @param {HTMLElement} node @param {number} many @param {number} version */
export function tellChanges(node, many, version) {
  text(node, many === 0 ? `No changes to version ${version}` : `${many} ${many === 1 ? "change" : "changes"} to version ${version}, not saved`);
}
