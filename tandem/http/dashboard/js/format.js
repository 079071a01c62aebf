// Numbers and times as the page writes them. Words come from the server (OBS-068). What is not known is a dash.

export const NONE = "–";

/** @typedef {number | null | undefined} Figure */

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** @param {Figure} value @returns {value is number} */
const known = (value) => typeof value === "number" && Number.isFinite(value);

/** 12,345. @param {Figure} value */
export const count = (value) => (known(value) ? whole.format(value) : NONE);

/** 12.3K, for axes and tight places. @param {Figure} value */
export const compact = (value) => (known(value) ? short.format(value) : NONE);

/** 1.4 GB, of 1,000. @param {Figure} value */
export function bytes(value) {
  if (!known(value)) return NONE;
  const units = ["B", "kB", "MB", "GB", "TB"];
  let size = Math.abs(value);
  let unit = 0;
  while (size >= 999.5 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${value < 0 ? "-" : ""}${size.toFixed(unit && size < 99.95 ? 1 : 0)} ${units[unit]}`;
}

/** Milliseconds as 85 ms, 3.2 s, 4 m 05 s, 2 h 10 m, 3 d 4 h. @param {Figure} ms */
export function duration(ms) {
  if (!known(ms)) return NONE;
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  if (ms < 99_950) return `${(ms / 1000).toFixed(1)} s`;
  return seconds(ms);
}

/** Milliseconds in whole seconds: 3 s, 4 m 05 s. @param {Figure} ms */
export function seconds(ms) {
  if (!known(ms)) return NONE;
  const total = Math.round(ms / 1000);
  const two = (/** @type {number} */ value) => String(value).padStart(2, "0");
  if (total < 60) return `${total} s`;
  if (total < 3600) return `${Math.floor(total / 60)} m ${two(total % 60)} s`;
  if (total < 86_400) return `${Math.floor(total / 3600)} h ${two(Math.floor((total % 3600) / 60))} m`;
  return `${Math.floor(total / 86_400)} d ${Math.floor((total % 86_400) / 3600)} h`;
}

/** A rate: 87.5, or 1,240. Its unit stands beside it. @param {Figure} value */
export const rate = (value) => (known(value) ? (value < 99.95 ? value.toFixed(1) : whole.format(value)) : NONE);

/** A share of 0 to 1 as 42 %. @param {Figure} share */
export const percent = (share) => (known(share) ? `${(share * 100).toFixed(share > 0 && share < 0.0995 ? 1 : 0)} %` : NONE);

/** @param {Figure} value @param {number} [digits] */
export const decimal = (value, digits = 1) => (known(value) ? value.toFixed(digits) : NONE);

/**
 * A moment as a date: ISO text, seconds or milliseconds since 1970.
 * @param {string | number | null | undefined} moment
 * @returns {Date | null}
 */
export function date(moment) {
  if (moment === null || moment === undefined || moment === "") return null;
  const found = new Date(typeof moment === "number" && moment < 1e11 ? moment * 1000 : moment);
  return Number.isNaN(found.getTime()) ? null : found;
}

const time = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "2-digit", month: "short" });

/** 14:03:22 of today, else 03 Jan 14:03:22. @param {string | number | null | undefined} moment */
export function clock(moment) {
  const found = date(moment);
  if (!found) return NONE;
  const today = found.toDateString() === new Date().toDateString();
  return today ? time.format(found) : `${day.format(found)} ${time.format(found)}`;
}

/** 12 s ago, 4 m 05 s ago. @param {string | number | null | undefined} moment @param {number} [now] */
export function ago(moment, now = Date.now()) {
  const found = date(moment);
  return found ? `${seconds(Math.max(0, now - found.getTime()))} ago` : NONE;
}
