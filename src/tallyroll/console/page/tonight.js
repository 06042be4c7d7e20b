// @ts-check
// The largest keys and those that are followed: bars, numbers and their curve.
import {
  by, clock, el, HERE, instant, name, number, rate, row, say, span, sum, visible,
} from "./dom.js";

/** @import { Counted, Tonight } from "./answers" */
/** @typedef {{ as_of: number, events: number }} Seen */

const SAMPLES = 30, LINES = 6, OLD_MS = 3_000, HOUR_MS = 3_600_000;
const COLOURS = 6;
const asked = new URLSearchParams(location.search);
/** @type {Map<string, Line>} */
const lines = new Map();
/** @type {Seen[]} */
let paced = [];
let pacedSince = 0, drawn = "";
/** @type {any} */
let plot;

/** A row of the board. */
class Line {
  /** @param {string} key */
  constructor(key) {
    /** @type {Seen[]} */
    this.seen = [];
    this.fill = el("div", { class: "fill" });
    this.events = el("td", { class: "number", "data-events": "" });
    this.pace = el("td", { class: "number" });
    const hint = el("span", { class: "unseen" }, `keep ${visible(key)} in view`);
    this.pin = el("button", { type: "button", "aria-pressed": "false" }, hint,
      el("span", { "aria-hidden": "true" }, "☆"));
    this.pin.addEventListener("click", () => toggle(key));
    this.tr = el("tr", {}, el("th", { scope: "row" }, name(key)),
      el("td", { class: "track" }, this.fill), this.events, this.pace, el("td", {}, this.pin));
    this.tr.dataset.key = key;
  }
}

/** @type {() => void} */
let renewed = () => {};
const followed = () => asked.getAll("key");

/** @param {string} key */
function toggle(key) {
  const rest = followed().filter((each) => each !== key);
  if (rest.length === followed().length) rest.push(key);
  asked.delete("key");
  for (const each of rest) asked.append("key", each);
  store();
}

function store() {
  history.replaceState(null, "", `${location.pathname}?${asked}${location.hash}`);
  renewed();
}

/** @param {() => void} renew */
export function begin(renew) {
  const form = /** @type {HTMLFormElement} */ (by("range"));
  for (const field of /** @type {Iterable<HTMLInputElement>} */ (form.elements))
    field.value = asked.get(field.name) ?? { range: "24h", zone: "UTC", by: "events" }[field.name] ?? "";
  const custom = () => form.classList.toggle("is-custom", value("range") === "custom");
  form.addEventListener("change", () => {
    for (const field of /** @type {Iterable<HTMLInputElement>} */ (form.elements))
      if (field.value) asked.set(field.name, field.value);
      else asked.delete(field.name);
    custom();
    store();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  custom();
  const adding = /** @type {HTMLFormElement} */ (by("follow"));
  adding.addEventListener("submit", (event) => {
    event.preventDefault();
    const input = /** @type {HTMLInputElement} */ (adding.elements.namedItem("key"));
    if (input.value && !followed().includes(input.value)) toggle(input.value);
    input.value = "";
  });
  renewed = renew;
}

/** @param {string} field */
function value(field) {
  const form = /** @type {HTMLFormElement} */ (by("range"));
  return /** @type {HTMLInputElement} */ (form.elements.namedItem(field)).value;
}

/** The zone that is chosen, if it is one. */
function zone() {
  try {
    clock(0, value("zone"));
    return value("zone");
  } catch {
    return "UTC";
  }
}

function query() {
  const now = Date.now(), range = value("range");
  const found = new URLSearchParams({ by: value("by") });
  if (range === "window") found.set("since", "window");
  if (range === "1h") found.set("since", String(now - HOUR_MS));
  if (range === "24h") found.set("since", String(now - 24 * HOUR_MS));
  if (range === "today") found.set("since", String(instant(`${clock(now, zone()).slice(0, 10)}T00:00`, zone())));
  if (range === "custom")
    for (const side of ["since", "until"])
      if (value(side)) found.set(side, String(instant(value(side), zone())));
  for (const key of followed()) found.append("key", key);
  return found;
}

/** @param {Tonight} answer */
function draw(answer) {
  const { ranking } = answer;
  const bySum = value("by") === "sum";
  say(by("spans"), spans(answer));
  say(by("measure"), bySum ? "sum" : "events");
  if (ranking) {
    if (pacedSince !== answer.since) paced = [];
    pacedSince = answer.since;
    note(paced, ranking);
  }
  say(by("events"), ranking ? number(ranking.events) : "–");
  say(by("keys"), ranking ? number(ranking.keys) : "–");
  const pace = ranking ? paceOf(paced) : null;
  say(by("pace"), pace === null ? "–" : rate(pace));
  const old = ranking ? answer.now - ranking.as_of : 0;
  say(by("age"), old > OLD_MS ? `the largest keys, as of ${span(old)} ago` : "the largest keys");
  board(answer.counts, bySum);
  curve(answer);
  return words(answer);
}

/** @param {Tonight} answer */
function spans(answer) {
  const shown = (/** @type {string} */ where) =>
    `${clock(answer.since, where)} to ${clock(answer.until, where)} ${where}`;
  const zones = [...new Set(["UTC", zone(), HERE])];
  return `${zones.map(shown).join("; ")}. Current window: ${answer.window.id}, ${answer.window.state ?? "not made"}.`;
}

/** What is to be said of the numbers. @param {Tonight} answer */
function words(answer) {
  const missing = new Map(Object.entries(answer.missing));
  for (const each of answer.ranking?.missing ?? [])
    if (!missing.has(each)) missing.set(each, "not read in time");
  if (missing.size)
    return `incomplete: ${[...missing].map(([id, why]) => `${id} (${why})`).join(", ")}; the rest is counted`;
  if (answer.unranked) return `exact for followed keys; the largest are not known: ${answer.unranked}`;
  return "exact";
}

/** @param {Seen[]} seen @param {Seen} now */
function note(seen, now) {
  const before = seen.at(-1);
  if (before && before.as_of >= now.as_of) return;
  if (before && now.events < before.events) seen.length = 0;
  seen.push({ as_of: now.as_of, events: now.events });
  if (seen.length > SAMPLES) seen.shift();
}

/** Events a second over the last samples. @param {Seen[]} seen */
function paceOf(seen) {
  const first = seen[Math.max(0, seen.length - 8)], last = seen.at(-1);
  if (!first || !last || first === last) return null;
  return (1000 * (last.events - first.events)) / Math.max(1, last.as_of - first.as_of);
}

/** @param {Counted[]} counts @param {boolean} bySum */
function board(counts, bySum) {
  const size = (/** @type {Counted} */ one) => (bySum ? Number(one.sum) : one.events);
  counts.sort((a, b) => size(b) - size(a) || (a.key < b.key ? -1 : 1));
  const most = Math.max(1, ...counts.map((one) => Math.abs(size(one))));
  const body = by("board");
  const before = new Map([...lines.values()].map((line, at) => [line, at]));
  const gone = new Set(lines.keys());
  /** @type {[Line, string, number][]} */
  const ordered = [];
  for (const one of counts) {
    let line = lines.get(one.key);
    if (!line) line = new Line(one.key);
    gone.delete(one.key);
    if (one.complete) note(line.seen, one);
    const pace = paceOf(line.seen);
    say(line.events, (bySum ? sum(one.sum) : number(one.events)) + (one.complete ? "" : " or more"));
    say(line.pace, pace ? `+${rate(pace)}` : "");
    line.fill.style.transform = `scaleX(${Math.max(0, size(one)) / most})`;
    line.pin.setAttribute("aria-pressed", String(one.followed));
    line.tr.classList.toggle("followed", one.followed);
    ordered.push([line, one.key, before.get(line) ?? -1]);
  }
  for (const key of gone) {
    lines.get(key)?.tr.remove();
    lines.delete(key);
  }
  arrange(body, ordered);
}

/** Put rows in their order; those that have moved glide. @param {HTMLElement} body
 * @param {[Line, string, number][]} ordered
 */
function arrange(body, ordered) {
  if (!ordered.some(([line], at) => body.children[at] !== line.tr)) return;
  const glides = matchMedia("(prefers-reduced-motion: no-preference)").matches;
  const height = body.firstElementChild instanceof HTMLElement ? body.firstElementChild.offsetHeight : 0;
  const was = new Map([...body.children].map((tr, at) => [tr, at]));
  lines.clear();
  ordered.forEach(([line, key], at) => {
    lines.set(key, line);
    if (body.children[at] !== line.tr) body.insertBefore(line.tr, body.children[at] ?? null);
    const from = was.get(line.tr);
    if (glides && from !== undefined && from !== at)
      line.tr.animate([{ transform: `translateY(${(from - at) * height}px)` }, { transform: "none" }],
        { duration: 400, easing: "ease-out" });
  });
}

/** @param {Tonight} answer */
function curve(answer) {
  const shown = answer.counts.filter((one) => one.parts).slice(0, LINES);
  const starts = [...new Set(shown.flatMap((one) => one.parts?.map(([start]) => start) ?? []))]
    .sort((a, b) => a - b);
  const last = Math.min(answer.until, answer.now);
  const columns = shown.map((one) => {
    const events = new Map(one.parts);
    return starts.map((start) => /** @type {number} */ (events.get(start) ?? 0));
  });
  const key = JSON.stringify([starts, columns, shown.map((one) => one.key), zone()]);
  if (key === drawn) return;
  drawn = key;
  const seconds = starts.map((start, at) => Math.max(1, ((starts[at + 1] ?? Math.max(last, start + 1)) - start) / 1000));
  const data = [
    [...starts, Math.max(last, (starts.at(-1) ?? 0) + 1)].map((start) => start / 1000),
    ...columns.map((column) => {
      const rates = column.map((events, at) => events / (seconds[at] ?? 1));
      return [...rates, rates.at(-1) ?? 0];
    }),
  ];
  draught(data, shown.map((one) => one.key));
  if (by("curve-rows").closest("details")?.open) tabulate(starts, columns, shown);
  else curveTable = () => tabulate(starts, columns, shown);
}

/** @type {(() => void) | undefined} */
let curveTable;
by("curve-rows").closest("details")?.addEventListener("toggle", () => curveTable?.());

/** @param {number[]} starts @param {number[][]} columns @param {Counted[]} shown */
function tabulate(starts, columns, shown) {
  curveTable = undefined;
  by("curve-head").replaceChildren(el("tr", {}, el("th", { scope: "col" }, `from (${zone()})`),
    ...shown.map((one) => el("th", { scope: "col" }, name(one.key)))));
  by("curve-rows").replaceChildren(...starts.map((start, at) =>
    row([clock(start, zone()), ...columns.map((column) => column[at] ?? 0)])));
}

/** Draw the curve. @param {number[][]} data @param {string[]} keys */
function draught(data, keys) {
  const at = by("curve"), colours = getComputedStyle(document.documentElement);
  const width = at.clientWidth || 320;
  const same = plot && plot.keys === JSON.stringify([keys, width, zone(), matchMedia("(prefers-color-scheme: dark)").matches]);
  if (same) {
    plot.setData(data);
    return;
  }
  plot?.destroy();
  if (!keys.length) {
    plot = undefined;
    return;
  }
  const UPlot = /** @type {any} */ (globalThis).uPlot;
  const ink = colours.getPropertyValue("--ink"), grid = { stroke: colours.getPropertyValue("--line"), width: 1 };
  plot = new UPlot({
    width,
    height: 260,
    tzDate: (/** @type {number} */ s) => UPlot.tzDate(new Date(s * 1000), zone()),
    legend: { live: false },
    cursor: { show: false },
    scales: { y: { range: (/** @type {any} */ _, /** @type {number} */ __, /** @type {number} */ most) => [0, Math.max(most, 0.001) * 1.05] } },
    axes: [{ stroke: ink, grid }, { stroke: ink, grid, size: 60, label: "events a second" }],
    series: [{}, ...keys.map((key, line) => ({
      label: visible(key).slice(0, 40),
      stroke: colours.getPropertyValue(`--line-${(line % COLOURS) + 1}`),
      width: 2,
      paths: UPlot.paths.stepped({ align: 1 }),
      points: { show: false },
    }))],
  }, data, at);
  plot.keys = JSON.stringify([keys, width, zone(), matchMedia("(prefers-color-scheme: dark)").matches]);
}

/** @param {import("./answers").Health} answer */
function waiting(answer) {
  const queue = answer.status.queue;
  say(by("waiting"), queue ? number(queue.visible + queue.in_flight + queue.delayed) : "–");
}

/** @type {import("./app.js").Need[]} */
export const needs = [
  { path: "tonight", every: 1_000, query, draw },
  { path: "health", every: 15_000, draw: waiting },
];
