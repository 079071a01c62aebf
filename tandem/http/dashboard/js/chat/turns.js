// The turns of a conversation as elements; each is made once and changes in place.

import { clear, h, text } from "../dom.js";
import { count, duration, rate } from "../format.js";
import { Markdown, copied } from "./render.js";
import { curl, request } from "./session.js";

/** @typedef {import("./session.js").Session} Session */
/** @typedef {import("./store.js").Turn} Turn */
/** @typedef {import("./store.js").Answer} Answer */
/** @typedef {import("./store.js").Call} Call */
/** @typedef {{ node: HTMLElement, update: () => void }} Shown */

/** @param {string} words @param {(event: Event) => void} onclick @param {string} [kind] */
const button = (words, onclick, kind = "quiet") => h("button", { type: "button", class: kind, onclick }, words);

/** @param {Session} session @param {Turn} turn @returns {Shown} */
export function shown(session, turn) {
  if (turn.role === "user") return question(session, turn);
  if (turn.role === "assistant") return answer(session, turn);
  // A result is shown in the card of its call.
  return { node: h("div", { hidden: true }), update: () => {} };
}

/** @param {Session} session @param {import("./store.js").UserTurn} turn @returns {Shown} */
function question(session, turn) {
  const body = h("div", { class: "said" }, turn.content);
  const edit = button("Edit", () => open());
  const copy = button("Copy", () => void copied(copy, turn.content));
  const foot = h("footer", null, edit, copy);
  const node = h("article", { class: "turn user", "aria-label": "You" }, h("h2", null, "You"), body, foot);
  const close = () => {
    clear(body, turn.content);
    foot.hidden = false;
    edit.focus();
  };
  const open = () => {
    const box = h("textarea", { "aria-label": "Your message", rows: Math.min(12, turn.content.split("\n").length + 1), value: turn.content });
    const later = session.talk.turns.slice(session.talk.turns.indexOf(turn) + 1).filter((each) => each.role !== "tool").length;
    const send = (/** @type {boolean} */ copy) => () => {
      if (!box.value.trim()) return box.focus();
      void session.edit(turn, box.value, copy);
    };
    const drop = later > 1 ? `Send, and drop the ${later} messages after it` : "Send";
    const row = h("div", { class: "row wrap" }, button(drop, send(false), "primary"), button("Send in a copy of this chat", send(true), ""), button("Cancel", close));
    box.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      close();
    });
    clear(body, box, row);
    foot.hidden = true;
    box.focus();
  };
  return { node, update: () => (edit.disabled = session.running !== null) };
}

/** @param {Session} session @param {Answer} turn @returns {Shown} */
function answer(session, turn) {
  const name = h("h2");
  const wait = h("p", { class: "waits muted" }, "\u00a0");
  const summary = h("summary");
  const thought = new Markdown(h("div", { class: "md" }));
  const reasoning = h("details", { class: "reasoning", hidden: true, ontoggle: () => update() }, summary, thought.node);
  const said = new Markdown(h("div", { class: "md said" }));
  const calls = h("div", { class: "calls" });
  const fault = h("div", { class: "notice bad", hidden: true });
  const foot = h("footer");
  const node = h("article", { class: "turn", "aria-label": "Answer" }, name, wait, reasoning, said.node, calls, fault, foot);
  const cards = cardsOf(session, turn, calls);
  let footed = "";

  const update = () => {
    const runs = session.running !== null && session.answer === turn;
    const empty = !turn.content && !turn.reasoning && !turn.calls?.length;
    text(name, session.model || "Answer");
    node.setAttribute("aria-busy", String(runs));
    wait.hidden = !(runs && empty);
    if (!wait.hidden) text(wait, waits(session));
    reasoning.hidden = !turn.reasoning;
    text(summary, runs && !turn.content && !turn.calls ? "Thinking …" : thoughtWords(turn));
    if (reasoning.open) thought.show(turn.reasoning ?? "");
    said.show(turn.content);
    cards();
    // Made anew only where it says something else, so that what is open in it stays open.
    const last = session.answer === turn;
    const state = JSON.stringify([runs, last, turn.finish, turn.stopped, turn.fault, turn.usage]);
    if (state === footed) return;
    footed = state;
    showFault(fault, session, turn, runs, last);
    clear(foot, runs ? null : footer(session, turn, last));
  };
  return { node, update };
}

/** @param {Session} session */
function waits(session) {
  const seconds = Math.floor((performance.now() - session.began) / 1000);
  return session.waiting || (seconds < 1 ? "Sent …" : `Waiting for the server, ${seconds} s`);
}

/** @param {Answer} turn */
function thoughtWords(turn) {
  const tokens = turn.usage?.completion_tokens_details?.reasoning_tokens;
  return tokens ? `Reasoning, ${count(tokens)} tokens` : "Reasoning";
}

/** @param {HTMLElement} node @param {Session} session @param {Answer} turn @param {boolean} runs @param {boolean} last */
function showFault(node, session, turn, runs, last) {
  node.hidden = !turn.fault || runs;
  if (!turn.fault) return;
  const { status, message, retry } = turn.fault;
  const words = /[.!?]$/.test(message) ? message : `${message}.`;
  clear(
    node,
    h("strong", null, status ? `Refused with ${status}: ` : "Failed: "),
    words,
    status === 401 ? " The parameters have a field for it." : null,
    retry ? ` The server asks to wait ${retry} s.` : null,
    last ? h("div", { class: "row" }, button("Retry", () => void session.again(false), "")) : null,
  );
}

/** @param {Session} session @param {Answer} turn @param {boolean} last @returns {import("../dom.js").Child} */
function footer(session, turn, last) {
  const copy = button("Copy", () => void copied(copy, turn.content));
  const body = () => {
    const turns = session.talk.turns;
    return curl(request(turns.slice(0, turns.indexOf(turn)), turn, session.model), session.key !== "");
  };
  const raw = h("pre", { tabindex: "0", "aria-label": "Request as curl" });
  const copyRaw = button("Copy", () => void copied(copyRaw, body()));
  const details = h("details", { class: "curl", ontoggle: () => text(raw, details.open ? body() : "") }, h("summary", null, "curl"), h("div", { class: "code" }, h("div", { class: "code-head" }, h("span", null, "The request as a command"), copyRaw), raw));
  return [
    h("ul", { class: "figures muted small" }, figures(turn).map((words) => h("li", null, words))),
    turn.content ? copy : null,
    last && !turn.fault ? button("Regenerate", () => void session.again(true)) : null,
    turn.id ? h("a", { class: "small", href: `#/dev/request/${encodeURIComponent(turn.id)}` }, "This request in Dev") : null,
    turn.sent ? details : null,
  ];
}

/** What the server says of an answer (OBS-115). @param {Answer} turn @returns {string[]} */
function figures(turn) {
  const { usage, timings } = turn;
  const words = [];
  if (turn.stopped) words.push("stopped");
  else if (turn.finish && !["stop", "tool_calls", "error"].includes(turn.finish)) words.push(`ended by ${turn.finish}`);
  if (usage) {
    const cached = usage.prompt_tokens_details?.cached_tokens;
    words.push(`${count(usage.prompt_tokens)} tokens read${cached ? `, ${count(cached)} cached` : ""}`);
    words.push(`${count(usage.completion_tokens)} written`);
  }
  if (timings) {
    if (timings.predicted_per_second) words.push(`${rate(timings.predicted_per_second)} tok/s`);
    words.push(`first token ${duration(timings.ttft_ms)}`);
    if (timings.queue_ms >= 50) words.push(`waited ${duration(timings.queue_ms)}`);
  }
  return words;
}

/**
 * The cards of an answer's calls. `update` grows them; the results of open ones are typed into them.
 * @param {Session} session
 * @param {Answer} turn
 * @param {HTMLElement} node
 */
function cardsOf(session, turn, node) {
  /** @type {ReturnType<typeof card>[]} */
  const cards = [];
  const send = button("Send the results", () => void session.give(results()), "primary");
  const row = h("div", { class: "row", hidden: true }, send);
  node.append(row);
  const results = () => cards.filter((each) => !each.call.broken).map((each) => each.box.value);
  return () => {
    (turn.calls ?? []).forEach((call, n) => {
      if (!cards[n] && call) row.before((cards[n] = card(call)).node);
    });
    const turns = session.talk.turns;
    const open = session.answer === turn && session.pending.length > 0;
    for (const each of cards) {
      const result = turns.slice(turns.indexOf(turn)).find((other) => other.role === "tool" && other.tool_call_id === each.call.id);
      each.update(open, result?.content);
    }
    text(send, cards.length > 1 ? "Send the results" : "Send the result");
    row.hidden = !open;
  };
}

/** What is typed into the cards of the open calls. @param {HTMLElement} root @returns {string[]} */
export const typedResults = (root) =>
  [...root.querySelectorAll("textarea.result")].map((box) => /** @type {HTMLTextAreaElement} */ (box).value);

/** @param {Call} call */
function card(call) {
  const name = h("h3", null);
  const args = h("pre", { tabindex: "0", "aria-label": "Arguments" });
  const box = h("textarea", { rows: 2 });
  const field = h("label", { class: "field", hidden: true }, "Result", box);
  const given = h("pre", { tabindex: "0", "aria-label": "Given result" });
  const done = h("div", { hidden: true }, h("p", { class: "muted small" }, "Result"), given);
  const cut = h("p", { class: "warn small", hidden: true }, "Its arguments were cut off, so it is not sent back.");
  let read = "";
  const update = (/** @type {boolean} */ open, /** @type {string | undefined} */ result) => {
    text(name, call.name);
    if (read !== call.arguments) text(args, pretty((read = call.arguments)));
    field.hidden = !open || Boolean(call.broken);
    box.classList.toggle("result", !field.hidden);
    done.hidden = result === undefined;
    if (result !== undefined) text(given, result);
    cut.hidden = !call.broken;
  };
  return { call, box, node: h("section", { class: "card", "aria-label": "Tool call" }, name, args, cut, field, done), update };
}

/** Indented once it is whole. @param {string} json */
function pretty(json) {
  if (!json.trimEnd().endsWith("}")) return json;
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;
  }
}
