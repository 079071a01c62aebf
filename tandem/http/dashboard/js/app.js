// The shell: which view is shown, how the connection stands, the theme, and the banner about edits.

import { getJson } from "./api.js";
import { clear, h, text } from "./dom.js";
import { History } from "./history.js";
import { Live } from "./live.js";

/**
 * @typedef {object} App what a view gets
 * @property {Live} live
 * @property {History} history
 * @property {(hash: string) => void} go
 * @property {(text: string) => void} announce read out to who does not see the page
 * @property {string[]} rest parts of the hash behind the view's name: of #/dev/request/ID, "request" and "ID"
 */
/**
 * @typedef {object} View
 * @property {string} id
 * @property {string} title
 * @property {(root: HTMLElement, app: App) => void | (() => void)} mount gives what takes it down again
 */

/** @type {Record<string, () => Promise<{ view: View }>>} loaded when they are first asked for */
const VIEWS = {
  live: () => import("./views/live.js"),
  chat: () => import("./views/chat.js"),
  usage: () => import("./views/usage.js"),
  dev: () => import("./views/dev.js"),
  system: () => import("./views/system.js"),
  overview: () => import("./views/overview.js"),
  conductor: () => import("./views/conductor.js"),
  parallel: () => import("./views/parallel.js"),
};
const START = "live";
const BANNER_WAIT_MS = 250;
const THEMES = ["auto", "light", "dark"];
const KEY = "tandem.theme";

const find = (/** @type {string} */ id) => /** @type {HTMLElement} */ (document.getElementById(id));
const main = find("main");
const live = new Live();
const history = new History(live);
/** @type {(() => void) | null} */
let unmount = null;
let round = 0;

/** @param {string} words */
function announce(words) {
  text(find("announcer"), words);
}

/** @param {string} hash */
function go(hash) {
  location.hash = hash;
}

async function show() {
  const mine = ++round;
  const [name = START, ...rest] = location.hash.replace(/^#\/?/, "").split("/").filter(Boolean).map(part);
  const load = Object.hasOwn(VIEWS, name) ? VIEWS[name] : undefined;
  for (const link of find("nav").querySelectorAll("a")) {
    const isHere = link.getAttribute("href") === `#/${name}`;
    if (isHere) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
    if (isHere && mine > 1) link.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
  if (!load) {
    put("Not here", [notice(`This page has no view “${name}”.`)]);
    return;
  }
  try {
    const { view } = await load();
    if (mine !== round) return;
    const root = put(view.title, []);
    root.dataset["view"] = view.id;
    unmount = view.mount(root, { live, history, go, announce, rest }) ?? null;
  } catch (error) {
    if (mine !== round) return;
    console.warn(error);
    put("Not loaded", [notice("This view could not be loaded. The server may have gone, or be another version."), retry()]);
  }
}

/** @param {string} raw */
function part(raw) {
  try {
    return decodeURIComponent(raw);
  } catch {
    return raw;
  }
}

/** Takes the last view down and puts an empty one in its place. @param {string} title @param {Node[]} children */
function put(title, children) {
  unmount?.();
  unmount = null;
  document.title = `${title} · Tandem`;
  const heading = h("h1", { class: "sr", tabindex: "-1" }, title);
  const root = h("div", { class: "view" }, ...children);
  clear(main, heading, root);
  if (round > 1) {
    heading.focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }
  return root;
}

/** @param {string} words */
const notice = (words) => h("p", { class: "notice warn", role: "alert" }, words);
const retry = () => h("button", { type: "button", onclick: () => location.reload() }, "Load the page again");

/** @param {import("./live.js").Link} link */
function tellLink(link) {
  const root = document.documentElement;
  const before = root.dataset["link"];
  root.dataset["link"] = link.kind;
  const node = find("link");
  const words = /** @type {HTMLElement} */ (node.querySelector(".link-text"));
  text(words, link.text);
  node.title = link.detail;
  if (link.kind === "reconnecting" && before !== "reconnecting") announce("The connection to the server is lost.");
  if (link.kind === "streaming" && before === "reconnecting") announce("The connection is back.");
}

/** API-022: a password is set, nobody signed in: what this page can and cannot do. */
async function banner() {
  /** @type {Wire.Session} */
  let session;
  try {
    session = await getJson("v1/dashboard/session");
  } catch {
    return; // the connection state tells of it
  }
  if (!session.password_set || session.session_ends !== null) return;
  const words = session.login
    ? "A password is set and the login is on: reading this page asks for it too. It has no sign-in screen; POST /v1/dashboard/session opens a session."
    : "A password is set and the login is off: everybody may read this page, but edits and memory views answer 401 without it.";
  clear(find("banner"), h("p", { class: "notice" }, words));
}

function theme() {
  const button = find("theme");
  const now = () => document.documentElement.dataset["theme"] ?? "auto";
  const label = () => {
    text(button, { auto: "◐", light: "○", dark: "●" }[now()] ?? "◐");
    button.title = `Theme: ${now()}`;
    button.setAttribute("aria-label", button.title);
  };
  button.addEventListener("click", () => {
    const next = THEMES[(THEMES.indexOf(now()) + 1) % THEMES.length] ?? "auto";
    if (next === "auto") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = next;
    try {
      localStorage.setItem(KEY, next);
    } catch {
      // it holds until the page is left
    }
    label();
  });
  label();
}

/** Its entry is the last one, so that nothing moves when it comes. @param {Wire.Live} document */
function offerParallel({ parallel }) {
  const link = find("nav").querySelector("[hidden]");
  if (parallel && link instanceof HTMLElement) link.hidden = false;
}

theme();
live.subscribe(offerParallel);
live.onLink(tellLink);
live.start();
window.addEventListener("hashchange", () => void show());
// The banner would push everything down: the first view waits a moment for it.
await Promise.race([banner(), new Promise((resolve) => setTimeout(resolve, BANNER_WAIT_MS))]);
await show();
