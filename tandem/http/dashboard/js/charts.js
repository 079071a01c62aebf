// Charts as SVG: a line, stacked bars, a heat map of days. Each has a sentence as its text alternative, a cursor for
// pointer and arrow keys whose values are written out beneath, and the same figures as a table. Redrawing moves nothing.

import { clear, h, svg, text } from "./dom.js";
import { NONE, compact } from "./format.js";

/**
 * @typedef {object} Series
 * @property {string} name
 * @property {number} [tone] which of the theme's colours, 1 to 6; else its place in the list
 */
/**
 * @typedef {object} ChartOptions
 * @property {string} title
 * @property {Series[]} series
 * @property {string} [unit] of the values, such as "tok/s"
 * @property {string} [xName] what a row is, for the table: "Time", "Day"
 * @property {(x: number) => string} [x] words for a row of a line chart
 * @property {(value: number | null) => string} [y] words for a value
 * @property {(value: number) => string} [axis] words for the scale's end; short
 * @property {number} [height] of the plot in pixels
 * @property {string} [empty] said when there is nothing to draw
 * @property {number} [least] the scale's end is never below this
 * @property {boolean} [legend] shown above; by default where there are several series
 */
/** @typedef {{ x: number, y: (number | null)[] }} Point */
/** @typedef {{ label: string, values: (number | null)[], short?: string }} Bar `short` is what the axis shows */
/** @typedef {{ day: string, value: number | null, words?: string }} Day `day` as 2026-01-31, `words` what is said of it */
/**
 * @template T
 * @typedef {{ node: HTMLElement, update: (rows: T[], span?: [number, number]) => void }} Chart
 */

const WIDE = 1000;
const TALL = 100;

/**
 * Lines over a number axis. `update(points, span)` draws; `span` is where the axis begins and ends, else the points do.
 * @param {ChartOptions} options
 * @returns {Chart<Point>}
 */
export function lineChart(options) {
  const say = options.x ?? String;
  /** @type {Point[]} */
  let points = [];
  /** @type {[number, number]} */
  let range = [0, 1];
  const paths = options.series.map((one, i) => svg("path", { class: `line s${one.tone ?? i + 1} d${i + 1}` }));
  const areas = options.series.map((one, i) => svg("path", { class: `area s${one.tone ?? i + 1}` }));
  if (paths.length > 1) areas.length = 0;
  const at = (/** @type {number} */ x) => (range[1] > range[0] ? (x - range[0]) / (range[1] - range[0]) : 0.5);
  const frame = makeFrame(options, [...areas, ...paths], {
    size: () => points.length,
    place: (index) => at(points[index]?.x ?? 0),
    head: (index) => say(points[index]?.x ?? 0),
    values: (index) => points[index]?.y ?? [],
    find: (share) => nearest(points, range[0] + share * (range[1] - range[0])),
  });
  return {
    node: frame.node,
    update(rows, span) {
      points = rows;
      const [first, last] = [rows[0], rows[rows.length - 1]];
      range = span ?? [first?.x ?? 0, last?.x ?? 1];
      const top = roof(Math.max(options.least ?? 0, ...rows.flatMap((row) => row.y.map((value) => value ?? 0))));
      paths.forEach((path, i) => path.setAttribute("d", stroke(rows, i, at, top)));
      areas.forEach((area, i) => area.setAttribute("d", surface(rows, i, at, top)));
      frame.axes(top, rows.length ? [say(range[0]), say(range[1])] : []);
      frame.refresh();
    },
  };
}

/**
 * @param {Point[]} rows @param {number} i @param {(x: number) => number} at @param {number} top
 */
function stroke(rows, i, at, top) {
  let path = "";
  let pen = "M";
  for (const row of rows) {
    const value = row.y[i];
    if (value === null || value === undefined) pen = "M";
    else {
      path += `${pen}${(at(row.x) * WIDE).toFixed(1)} ${(TALL - (value / top) * TALL).toFixed(2)}${pen === "M" ? "h0" : ""}`; // h0: a value alone is a dot
      pen = "L";
    }
  }
  return path;
}

/**
 * @param {Point[]} rows @param {number} i @param {(x: number) => number} at @param {number} top
 */
function surface(rows, i, at, top) {
  const known = rows.filter((row) => typeof row.y[i] === "number");
  const [first, last] = [known[0], known[known.length - 1]];
  if (!first || !last || known.length < rows.length) return "";
  const x = (/** @type {Point} */ row) => (at(row.x) * WIDE).toFixed(1);
  return `M${x(first)} ${TALL}${stroke(known, i, at, top).replace("M", "L")}L${x(last)} ${TALL}Z`;
}

/** @param {Point[]} points @param {number} x */
function nearest(points, x) {
  let best = 0;
  points.forEach((point, i) => {
    if (Math.abs(point.x - x) < Math.abs((points[best]?.x ?? Infinity) - x)) best = i;
  });
  return best;
}

/**
 * Stacked bars, one a row. `update(bars)` draws.
 * @param {ChartOptions} options
 * @returns {Chart<Bar>}
 */
export function bars(options) {
  /** @type {Bar[]} */
  let rows = [];
  const group = svg("g");
  const frame = makeFrame(options, [group], {
    size: () => rows.length,
    place: (index) => (index + 0.5) / Math.max(1, rows.length),
    head: (index) => rows[index]?.label ?? "",
    values: (index) => rows[index]?.values ?? [],
    find: (share) => Math.floor(share * rows.length),
  });
  const sum = (/** @type {Bar} */ bar) => bar.values.reduce((/** @type {number} */ all, value) => all + (value ?? 0), 0);
  return {
    node: frame.node,
    update(next) {
      rows = next;
      const top = roof(Math.max(options.least ?? 0, ...rows.map(sum)));
      const step = WIDE / Math.max(1, rows.length);
      const gap = rows.length > 100 ? 0 : step * 0.16;
      clear(group);
      rows.forEach((row, at) => {
        let below = TALL;
        row.values.forEach((value, i) => {
          const height = ((value ?? 0) / top) * TALL;
          if (height <= 0) return;
          below -= height;
          const tone = options.series[i]?.tone ?? i + 1;
          const box = { x: (at * step + gap / 2).toFixed(2), y: below.toFixed(3), width: (step - gap).toFixed(2) };
          group.append(svg("rect", { class: `bar-box s${tone}`, ...box, height: height.toFixed(3) }));
        });
      });
      const ends = [rows[0], rows[rows.length - 1]].map((row) => row?.short ?? row?.label ?? "");
      frame.axes(top, rows.length ? ends : []);
      frame.refresh();
    },
  };
}

/**
 * A year of days as a grid, one column a week, Monday on top. `update(days)` draws; days in order, none left out.
 * @param {Omit<ChartOptions, "series"> & { what: string }} options `what` a day's value counts
 * @returns {Chart<Day>}
 */
export function heatmap(options) {
  const CELL = 13;
  /** Room for the names of the months. */
  const TOP = 12;
  /** @type {Day[]} */
  let days = [];
  let before = 0;
  const picture = svg("svg", { class: "heat", "aria-hidden": "true", focusable: "false" });
  const mark = svg("rect", { class: "heat-mark", width: CELL - 1, height: CELL - 1, rx: 2, visibility: "hidden" });
  const frame = makeFrame({ ...options, series: [{ name: options.what }], legend: false }, [], {
    size: () => days.length,
    place: () => 0,
    head: (index) => days[index]?.day ?? "",
    words: (index) => days[index]?.words,
    values: (index) => [days[index]?.value ?? null],
    find: () => 0,
    picture,
    stride: 7,
    mark(index) {
      mark.setAttribute("visibility", index === null ? "hidden" : "visible");
      if (index === null) return;
      mark.setAttribute("x", String(Math.floor((index + before) / 7) * CELL));
      mark.setAttribute("y", String(TOP + ((index + before) % 7) * CELL));
    },
  });
  picture.addEventListener("pointermove", (event) => {
    const index = event.target instanceof Element ? event.target.getAttribute("data-i") : null;
    if (index !== null) frame.point(Number(index));
  });
  return {
    node: frame.node,
    update(next) {
      days = next;
      before = days[0] ? (new Date(days[0].day + "T12:00:00Z").getUTCDay() + 6) % 7 : 0;
      const most = Math.max(0, ...days.map((day) => day.value ?? 0));
      const weeks = Math.max(1, Math.ceil((days.length + before) / 7));
      picture.setAttribute("viewBox", `0 0 ${weeks * CELL} ${TOP + 7 * CELL}`);
      picture.style.minWidth = `${weeks * 12}px`;
      picture.style.maxWidth = `${weeks * 24}px`;
      clear(picture);
      days.forEach((day, index) => {
        const [x, y] = [Math.floor((index + before) / 7) * CELL, TOP + ((index + before) % 7) * CELL];
        const month = day.day.endsWith("-01") && x < (weeks - 2) * CELL;
        if (month) picture.append(svg("text", { class: "heat-month", x, y: TOP - 4 }, monthName(day.day)));
        const box = { x, y, width: CELL - 2, height: CELL - 2, rx: 2 };
        picture.append(svg("rect", { class: `cell l${level(day.value ?? 0, most)}`, "data-i": index, ...box }));
      });
      picture.append(mark);
      frame.refresh();
      frame.toEnd();
    },
  };
}

/** Jan. @param {string} day */
const monthName = (day) => new Date(day + "T12:00:00Z").toLocaleDateString("en", { month: "short", timeZone: "UTC" });

/** 0 for nothing, 1 to 4 by the root of the share: a few heavy days must not turn all others pale. */
const level = (/** @type {number} */ value, /** @type {number} */ most) =>
  value <= 0 ? 0 : Math.max(1, Math.ceil(Math.sqrt(value / most) * 4));

/** The round number at or above `value` where a scale ends. @param {number} value */
function roof(value) {
  if (!(value > 0)) return 1;
  const unit = 10 ** Math.floor(Math.log10(value));
  const step = [1, 1.5, 2, 3, 4, 5, 8, 10].find((each) => value <= each * unit * 1.0001) ?? 10;
  return step * unit;
}

/**
 * @typedef {object} Reading how the frame reads what a chart holds
 * @property {() => number} size
 * @property {(index: number) => number} place share of the width
 * @property {(index: number) => string} head
 * @property {(index: number) => (number | null)[]} values
 * @property {(index: number) => string | undefined} [words] all that is said of a row, in place of head and values
 * @property {(share: number) => number} find
 * @property {SVGElement} [picture] in place of the plot
 * @property {number} [stride] rows that arrow left and right go; up and down go one
 * @property {(index: number | null) => void} [mark] shows the cursor
 */

/**
 * @param {ChartOptions} options
 * @param {SVGElement[]} marks
 * @param {Reading} reading
 */
function makeFrame(options, marks, reading) {
  const write = (/** @type {number | null | undefined} */ value) =>
    typeof value === "number" ? (options.y ?? compact)(value) : NONE;
  const unit = options.unit ? ` ${options.unit}` : "";
  /** @type {number | null} */
  let cursor = null;

  const plot =
    reading.picture ??
    svg(
      "svg",
      { viewBox: `0 0 ${WIDE} ${TALL}`, preserveAspectRatio: "none", "aria-hidden": "true", focusable: "false" },
      [25, 50, 75].map((y) => svg("line", { class: "grid", x1: 0, x2: WIDE, y1: y, y2: y })),
      ...marks,
    );
  const hair = h("i", { class: "chart-hair", hidden: true });
  const nothing = h("span", { class: "chart-empty", hidden: true }, options.empty ?? "No data yet.");
  const field = h("div", { class: "chart-plot", tabindex: "0", role: "img" }, plot, hair, nothing);
  if (!reading.picture) field.style.height = `${options.height ?? 96}px`;
  const [high, low, from, to] = ["", "", "", ""].map(() => h("span"));
  const readout = h("p", { class: "chart-readout", "aria-live": "polite" }, "\u00a0");
  const table = h("table");
  const details = h("details", { class: "chart-table" }, h("summary", null, "Figures as a table"), h("div", null, table));
  const many = options.legend ?? options.series.length > 1;
  const legend = options.series.map((one, i) =>
    h("li", null, h("i", { class: `swatch s${one.tone ?? i + 1} d${i + 1}`, "aria-hidden": "true" }), one.name),
  );
  const axis = reading.picture
    ? [field]
    : [h("div", { class: "chart-y", "aria-hidden": "true" }, high, low), field, h("div", { class: "chart-x", "aria-hidden": "true" }, from, to)];
  const node = h(
    "figure",
    { class: reading.picture ? "chart chart-heat" : "chart" },
    h("figcaption", null, h("span", null, options.title), many && h("ul", { class: "legend" }, legend)),
    h("div", { class: "chart-grid" }, axis),
    h("div", { class: "chart-foot" }, details, readout),
  );

  /** @param {number} index */
  const words = (index) => {
    const whole = reading.words?.(index);
    if (whole) return whole;
    const values = reading.values(index);
    const each = options.series.map((one, i) => `${many ? one.name + " " : ""}${write(values[i])}${unit}`);
    return `${reading.head(index)}: ${each.join(", ")}`;
  };
  /** @param {number | null} index */
  const point = (index) => {
    const size = reading.size();
    cursor = index === null || !size ? null : Math.min(size - 1, Math.max(0, index));
    reading.mark?.(cursor);
    hair.hidden = cursor === null || reading.picture !== undefined;
    if (cursor !== null) hair.style.left = `${reading.place(cursor) * 100}%`;
    text(readout, cursor === null ? "\u00a0" : words(cursor));
  };
  const tabulate = () => {
    if (!details.open) return;
    const head = [options.xName ?? "", ...options.series.map((one) => one.name + (unit && ` (${unit.trim()})`))];
    const rows = Array.from({ length: reading.size() }, (_, i) =>
      h("tr", null, h("th", { scope: "row" }, reading.head(i)), options.series.map((_, at) => h("td", { class: "num" }, write(reading.values(i)[at])))),
    );
    clear(table, h("thead", null, h("tr", null, head.map((name) => h("th", { scope: "col" }, name)))), h("tbody", null, rows));
  };

  details.addEventListener("toggle", tabulate);
  field.addEventListener("pointermove", (event) => {
    if (reading.picture) return;
    const box = field.getBoundingClientRect();
    point(reading.find((event.clientX - box.left) / Math.max(1, box.width)));
  });
  field.addEventListener("pointerleave", () => document.activeElement !== field && point(null));
  field.addEventListener("blur", () => point(null));
  field.addEventListener("focus", () => field.matches(":focus-visible") && point(reading.size() - 1));
  field.addEventListener("keydown", (event) => {
    const stride = reading.stride ?? 1;
    /** @type {Record<string, number>} */
    const steps = { ArrowLeft: -stride, ArrowRight: stride, ArrowUp: -1, ArrowDown: 1, Home: -Infinity, End: Infinity };
    const step = steps[event.key];
    if (step === undefined) return;
    event.preventDefault();
    point((cursor ?? reading.size() - 1) + step);
  });

  return {
    node,
    point,
    /** The scale's end, and the words under its first and last row. @param {number} top @param {string[]} ends */
    axes(top, ends) {
      if (high) text(high, (options.axis ?? compact)(top));
      if (low) text(low, "0");
      if (from) text(from, ends[0] ?? "");
      if (to) text(to, ends[1] ?? "");
    },
    /** Words, cursor and table after the rows have changed. The table stands still while somebody reads in it. */
    refresh() {
      const size = reading.size();
      nothing.hidden = size > 0;
      field.setAttribute("aria-label", `${options.title}. ${size ? `${size} values; the last, ${words(size - 1)}` : options.empty ?? "No data yet."} Arrow keys read single values.`);
      if (cursor !== null) point(cursor);
      if (!details.contains(document.activeElement)) tabulate();
    },
    toEnd() {
      field.scrollLeft = field.scrollWidth;
    },
  };
}
