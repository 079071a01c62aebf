// Conversations, presets and the draft, in this browser alone. A browser that keeps nothing (a private window, a full
// disk) costs what would have been kept and no more.

/**
 * @typedef {{ id: string, name: string, arguments: string, broken?: boolean }} Call `broken`: its arguments were cut
 * @typedef {{ status: number, message: string, retry?: number | null }} Fault `retry`: seconds that the server asks for
 * @typedef {{ role: "user", content: string }} UserTurn
 * @typedef {{ role: "tool", content: string, tool_call_id: string }} ToolTurn
 * @typedef {{ role: "assistant", content: string, reasoning?: string, calls?: Call[], id?: string, finish?: string,
 *   stopped?: boolean, fault?: Fault | null, usage?: any, timings?: any, at?: number,
 *   sent?: Record<string, any> }} Answer `sent`: the request's fields but for its messages
 * @typedef {UserTurn | ToolTurn | Answer} Turn
 * @typedef {{ id: string, title: string, updated: number, turns: Turn[] }} Conversation
 * @typedef {Record<string, string>} Params what was changed, as typed
 */

const PREFIX = "tandem.chat.";
const NEWEST = 30;

/** @returns {Storage | null} */
function storage() {
  try {
    return window.localStorage;
  } catch {
    return null;
  }
}

/**
 * @template T
 * @param {string} name
 * @param {T} fallback
 * @returns {T}
 */
export function load(name, fallback) {
  try {
    const text = storage()?.getItem(PREFIX + name);
    return text ? JSON.parse(text) : fallback;
  } catch {
    return fallback;
  }
}

/** Whether it is kept. @param {string} name @param {unknown} value */
export function save(name, value) {
  try {
    if (value === null) storage()?.removeItem(PREFIX + name);
    else storage()?.setItem(PREFIX + name, JSON.stringify(value));
    return storage() !== null;
  } catch {
    return false;
  }
}

/** Each has a key of its own, so that two tabs do not overwrite each other's. @returns {Conversation[]} newest first */
export function conversations() {
  const box = storage();
  /** @type {Conversation[]} */
  const found = [];
  for (let n = 0; box && n < box.length; n += 1) {
    const key = box.key(n) ?? "";
    const kept = key.startsWith(`${PREFIX}talk.`) ? load(key.slice(PREFIX.length), null) : null;
    if (isConversation(kept)) found.push(kept);
  }
  return found.sort((a, b) => b.updated - a.updated);
}

/** Keeps a conversation for now. @param {Conversation} talk */
export const note = (talk) => save(`talk.${talk.id}`, talk);

/** Keeps a conversation; the oldest make room. @param {Conversation} talk */
export function keep(talk) {
  const others = conversations().filter((each) => each.id !== talk.id);
  for (const old of others.splice(NEWEST - 1)) forget(old.id);
  while (!note(talk) && others.length) forget(others.pop()?.id ?? "");
}

/** @param {string} id */
export const forget = (id) => save(`talk.${id}`, null);

/** Which one this tab has open. @param {string} id */
export function remember(id) {
  try {
    sessionStorage.setItem(`${PREFIX}open`, id);
  } catch {
    // a reload begins a new one
  }
}

/** @returns {Conversation | null} */
export function lastOpen() {
  try {
    const kept = load(`talk.${sessionStorage.getItem(`${PREFIX}open`)}`, null);
    return isConversation(kept) ? kept : null;
  } catch {
    return null;
  }
}

/** @param {any} value @returns {value is Conversation} */
function isConversation(value) {
  return typeof value?.id === "string" && Array.isArray(value.turns) && typeof value.updated === "number";
}

/** @param {Conversation} talk */
export const asJson = (talk) => JSON.stringify(talk, null, 2) + "\n";

/** @param {Conversation} talk */
export function asMarkdown(talk) {
  const parts = [`# ${talk.title}`];
  for (const turn of talk.turns) {
    if (turn.role === "user") parts.push("## You", turn.content);
    else if (turn.role === "tool") parts.push(`## Result of ${turn.tool_call_id}`, fenced("", turn.content));
    else {
      parts.push("## Answer");
      if (turn.reasoning) parts.push("> " + turn.reasoning.trim().split("\n").join("\n> "));
      if (turn.content) parts.push(turn.content);
      for (const call of turn.calls ?? []) parts.push(`Call of \`${call.name}\` (${call.id})`, fenced("json", call.arguments));
    }
  }
  return parts.join("\n\n") + "\n";
}

/** A fence longer than any in the text. @param {string} lang @param {string} text */
function fenced(lang, text) {
  const longest = [...text.matchAll(/`+/g)].reduce((most, found) => Math.max(most, found[0].length), 2);
  const fence = "`".repeat(longest + 1);
  return `${fence}${lang}\n${text}\n${fence}`;
}

/** Gives a text to the person as a file. @param {string} name @param {string} text */
export function download(name, text) {
  const link = document.createElement("a");
  const url = URL.createObjectURL(new Blob([text], { type: "application/octet-stream" }));
  link.setAttribute("href", url);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
