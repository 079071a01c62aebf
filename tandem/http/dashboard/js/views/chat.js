// Chat: a conversation over the public API, as any client would hold it (OBS-090, OBS-091).

import { clear, h, text } from "../dom.js";
import { Session } from "../chat/session.js";
import { settings } from "../chat/settings.js";
import { shown, typedResults } from "../chat/turns.js";
import * as store from "../chat/store.js";

// The rules of this screen are loaded with it. An import of this module waits for the sheet, so nothing jumps.
await new Promise((done) => {
  document.head.append(h("link", { rel: "stylesheet", href: "css/chat.css", onload: done, onerror: done }));
});

/** One for the page: an answer goes on while the person looks at another screen. */
const session = new Session();
/** Below this the parameters take the place of the conversation. */
const NARROW = window.matchMedia("(max-width: 1000px)");

/**
 * @param {HTMLElement} root
 * @param {{ announce: (words: string) => void }} app
 * @returns {() => void}
 */
function mount(root, app) {
  session.announce = app.announce;
  const log = h("section", { class: "chat-log", "aria-label": "Conversation" });
  const hint = h("div", { class: "empty" });
  const box = h("textarea", { id: "chat-box", rows: 2, placeholder: "Message", "aria-label": "Message", value: store.load("draft", "") });
  const send = h("button", { type: "submit", class: "primary" }, "Send");
  const stop = h("button", { type: "button", hidden: true, onclick: () => session.stop() }, "Stop");
  const keys = h("p", { class: "muted small keys" }, "Enter sends, Shift+Enter breaks the line, Esc stops.");
  const form = h("form", { class: "chat-form" }, box, h("div", { class: "row" }, keys, stop, send));
  const bar = toolbar();
  const toggle = h("button", { type: "button", "aria-expanded": "false" }, "Parameters");
  const panel = settings(session, (changed, wrong) => {
    text(toggle, `Parameters${changed ? ` (${changed} changed${wrong ? `, ${wrong} wrong` : ""})` : ""}`);
    toggle.classList.toggle("bad", wrong > 0);
    send.disabled = wrong > 0;
  });
  const open = (/** @type {boolean} */ wide) => {
    panel.node.hidden = !wide;
    toggle.setAttribute("aria-expanded", String(wide));
  };
  toggle.addEventListener("click", () => open(panel.node.hidden !== false));
  panel.node.append(h("button", { type: "button", class: "primary back", onclick: () => open(false) }, "Back to the chat"));
  const fit = () => open(!NARROW.matches);
  NARROW.addEventListener("change", fit);
  fit();
  bar.node.append(toggle);

  /** @type {Map<store.Turn, import("../chat/turns.js").Shown>} */
  let views = new Map();
  const refresh = () => {
    const before = views;
    views = new Map(session.talk.turns.map((turn) => [turn, before.get(turn) ?? shown(session, turn)]));
    for (const [turn, each] of before) if (!views.has(turn)) each.node.remove();
    for (const each of views.values()) {
      if (!each.node.isConnected) log.append(each.node);
      each.update();
    }
    hint.hidden = views.size > 0;
    bar.update();
    state();
  };
  const state = () => {
    const runs = session.running !== null;
    stop.hidden = !runs;
    send.hidden = runs;
    if (session.answer?.fault?.status === 401) panel.askKey();
  };

  // Text is shown as often as the page can bear: a frame each while that is cheap, less often as the answer grows long.
  let due = 0;
  let busyUntil = 0;
  const grow = () => {
    due ||= window.setTimeout(() => requestAnimationFrame(draw), Math.max(0, busyUntil - performance.now()));
  };
  const draw = () => {
    due = 0;
    const began = performance.now();
    const last = [...views.values()].at(-1);
    stuck(() => last?.update());
    if (!session.running) stuck(refresh);
    state();
    const now = performance.now();
    busyUntil = now + 4 * (now - began);
  };
  const tick = setInterval(() => session.running && grow(), 1000);
  session.changed = (what) => {
    if (what === "text") return grow();
    refresh();
    if (session.running) toEnd();
  };

  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    const words = box.value;
    if (!words.trim() || session.running || send.disabled) return;
    box.value = "";
    store.save("draft", null);
    void session.ask(words, typedResults(log));
  };
  form.addEventListener("submit", submit);
  box.addEventListener("input", () => store.save("draft", box.value || null));
  box.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) submit(event);
  });
  const escape = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Escape" && session.running) session.stop();
  };
  const leave = () => session.running && session.note();
  document.addEventListener("keydown", escape);
  window.addEventListener("pagehide", leave);

  clear(hint, h("p", null, "Ask the model something. What you write stays in this browser; the server keeps what it keeps of any request."));
  root.append(h("div", { class: "chat" }, bar.node, h("div", { class: "chat-main" }, log, hint, form), panel.node));
  refresh();
  return () => {
    session.changed = () => {};
    clearInterval(tick);
    clearTimeout(due);
    panel.stop();
    NARROW.removeEventListener("change", fit);
    document.removeEventListener("keydown", escape);
    window.removeEventListener("pagehide", leave);
  };
}

/** Does something that may change the height; a reader who is at the end stays there. @param {() => void} change */
function stuck(change) {
  const page = document.scrollingElement;
  const atEnd = page !== null && page.scrollHeight - page.scrollTop - page.clientHeight < 40;
  change();
  if (atEnd) toEnd();
}

function toEnd() {
  const page = document.scrollingElement;
  page?.scrollTo({ top: page.scrollHeight, behavior: "instant" });
}

/** The choice of conversation and what can be done with one. */
function toolbar() {
  const list = h("select", { "aria-label": "Conversation", onchange: () => session.open(store.conversations().find((talk) => talk.id === list.value) ?? null) });
  const name = () => session.talk.title.replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 40) || "chat";
  const button = (/** @type {string} */ words, /** @type {() => void} */ onclick, /** @type {string} */ label = words) =>
    h("button", { type: "button", onclick, "aria-label": label === words ? null : label, title: label }, words);
  const json = button("↓ JSON", () => store.download(`${name()}.json`, store.asJson(session.talk)), "Export as JSON");
  const markdown = button("↓ MD", () => store.download(`${name()}.md`, store.asMarkdown(session.talk)), "Export as Markdown");
  let sure = 0;
  const remove = button("Delete", () => {
    if (!sure) {
      text(remove, "Really delete?");
      sure = window.setTimeout(calm, 4000);
      return;
    }
    calm();
    store.forget(session.talk.id);
    session.open(null);
  });
  const calm = () => {
    clearTimeout(sure);
    sure = 0;
    text(remove, "Delete");
  };
  const fresh = button("New", () => {
    session.open(null);
    document.getElementById("chat-box")?.focus();
  });
  const node = h("div", { class: "toolbar chat-bar" }, list, fresh, h("span", { class: "row", role: "group", "aria-label": "Export" }, json, markdown), remove);
  const update = () => {
    const kept = store.conversations().filter((talk) => talk.id !== session.talk.id);
    const all = [session.talk, ...kept];
    clear(list, all.map((talk) => h("option", { value: talk.id, selected: talk === session.talk }, talk.title)));
    json.disabled = markdown.disabled = remove.disabled = session.talk.turns.length === 0;
  };
  return { node, update };
}

export const view = { id: "chat", title: "Chat", mount };
