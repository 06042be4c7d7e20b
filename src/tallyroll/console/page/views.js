// @ts-check
// The views beside Tonight.
import {
  ask, both, by, el, name, number, Problem, rate, redraw, row, say, span, sum, svg, table, visible,
  windowLink,
} from "./dom.js";

/**
 * @import { Checks, Find, Health, Keys, Letter, Letters, Match, Windowed, Windows } from "./answers"
 * @import { View } from "./app.js"
 * @import { Part } from "./dom.js"
 */

const QUARTER_MS = 15_000, MINUTE_MS = 60_000;
const SHOWN = 40, LIFE = 240, TALL = 14, HOT_SHOWN = 3;
const STATES = ["creating", "open", "closing", "sealed", "exporting", "proven", "dropping", "dropped"];
const WORST = ["finding", "unchecked", "warning", "ok"];
const SPARK = 160, SPARK_TALL = 28;
const MINUTES = 10, SHARDS_DRAWN = 16, DOTS = 6;

/** @param {string} iso */
const told = (iso) => both(Date.parse(iso));
/** @param {string} text */
const para = (text, kind = "quiet") => el("p", { class: kind }, text);

/** Names with what they have; those without it are left out. @param {[string, Part][]} pairs */
function facts(...pairs) {
  return el("dl", { class: "facts" }, ...pairs.flatMap(([what, value]) =>
    value || value === 0 ? [el("dt", {}, what), el("dd", {}, value)] : []));
}

// Find

/** @param {string} id @param {(of: URLSearchParams) => Promise<Node[]>} look */
function onFind(id, look) {
  const form = /** @type {HTMLFormElement} */ (by(id)), found = by("found");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const of = new URLSearchParams();
    for (const [field, value] of new FormData(form)) if (value) of.set(field, String(value));
    found.replaceChildren(para("looking"));
    look(of).then((parts) => found.replaceChildren(...parts),
      (error) => found.replaceChildren(...notFound(error)));
  });
}

/** @param {unknown} error */
function notFound(error) {
  if (!(error instanceof Problem)) return [para("no answer: does the console run?", "poor")];
  const { archive, archives } = error.body;
  const prefixes = Object.entries(archives ?? {});
  return [
    para(error.message, "poor"),
    ...(prefixes.length
      ? [table("archives", ["window", "archive"], prefixes.map(([id, at]) => [windowLink(id), at]))]
      : archive ? [para(`Its archive: ${archive}`)] : []),
  ];
}

/** @param {URLSearchParams} of */
async function findKey(of) {
  if (of.has("id")) return findEvent(of);
  const like = new URLSearchParams({ prefix: of.get("key") ?? "", limit: "20" });
  /** @type {[Find, Keys | null]} */
  const [{ count, places }, listed] = await Promise.all([
    ask("find", of), ask("keys", like).catch(() => null)]);
  const parts = [
    el("h3", {}, name(count.key)),
    facts(
      ["events", count.events],
      ["sum", sum(count.sum)],
      ["retracted", count.retracted?.events],
      ["over all time", count.complete ? "exact" : `incomplete: ${count.missing} could not be read`],
      ["as of", told(count.as_of)]),
    table("the newest windows that hold its events",
      ["window", "state", "events", "shards", "table", "archive"],
      places.map((one) => [windowLink(one.window), one.state, one.events, one.shards,
        one.table ?? "dropped", one.archive])),
  ];
  if (count.rolled_up)
    parts.push(table("days and months that are summed up", ["period", "windows", "events"],
      count.rolled_up.map((one) => [one.period, one.windows, one.events])));
  if (listed?.keys.length)
    parts.push(table("keys that begin so, today (UTC)", ["key", "events", "sum"],
      listed.keys.map((one) => [name(one.key), one.events, sum(one.sum)])));
  return parts;
}

/** @param {URLSearchParams} of */
async function findEvent(of) {
  /** @type {Find} */
  const { matches, archived = [] } = await ask("find", of);
  const others = archived.flatMap(({ window }) => [" ", windowLink(window)]);
  return [...matches.map(match),
    ...(others.length ? [el("p", {}, "Others may be in the archives of", ...others)] : [])];
}

/** @param {Match} one */
function match(one) {
  const payload = one.payload ?? one.payload_ref;
  return el("section", { class: "card" },
    el("h3", {}, name(one.id)),
    el("p", {}, one.retracted ? `counted, and retracted by ${visible(one.retracted.by || "somebody")}`
      : "counted", " in ", windowLink(one.window), `, which is ${one.state}`),
    facts(
      ["key", name(one.key)],
      ["record", name(one.record)],
      ["shard", one.shard],
      ["table", one.table],
      ["archive", one.archive],
      ["time", one.ts && both(one.ts)],
      ["value", one.value],
      ["events", one.events?.length],
      ["payload", payload !== undefined && el("code", {}, visible(JSON.stringify(payload)))]));
}

/** @param {URLSearchParams} of */
async function findLetters(of) {
  /** @type {Letters} */
  const { seen, expected, groups, letters } = await ask("letters", of);
  by("reasons").replaceChildren(...groups.map((one) => el("option", { value: one.reason })));
  const looked = `${letters.length || "no"} letters; looked at ${number(seen)} of about ${number(expected)}`;
  return [para(looked), ...letters.map(letter)];
}

/** @param {Letter} one */
function letter(one) {
  return el("section", { class: "card" },
    el("h4", {}, one.reason),
    facts(
      ["why", visible(one.detail ?? "")],
      ["window", one.window && windowLink(one.window)],
      ["letter", name(one.letter)],
      ["message", name(one.message)],
      ["sent", told(one.sent)],
      ["expires", told(one.expires)],
      ["body lies in", visible(one.body_lies_in ?? "")],
      ["body", el("code", {}, visible(one.body))],
      ["to send it again", el("code", {}, `tallyroll dlq redrive --reason ${one.reason}`)]));
}

export function begin() {
  onFind("find-key", findKey);
  onFind("find-letter", findLetters);
  by("windows-all").addEventListener("click", () => {
    all = true;
    if (listed) drawWindows(listed);
  });
}

// Windows

let all = false, chosen = "", drawnWindows = "";
/** @type {Windows | undefined} */
let listed;

/** @param {Windows} answer */
function drawWindows(answer) {
  listed = answer;
  const { windows, older, missing, now } = answer;
  const begin = windows.length - SHOWN;
  const shown = windows.filter((one, at) => all || one.late || at >= begin || one.window === chosen);
  const late = windows.filter((one) => one.late).length;
  by("windows-all").hidden = shown.length === windows.length;
  say(by("windows-note"), `${number(windows.length)} windows${older ? `, ${number(older)} older ones` : ""};`
    + ` ${late || "none"} late.${missing.length ? ` Not made, and should be: ${missing.join(", ")}.` : ""}`);
  const key = JSON.stringify([shown, chosen]);
  if (key === drawnWindows) return;
  drawnWindows = key;
  const first = Math.min(now, ...shown.map((one) => moments(one)[0]?.[1] ?? now));
  const rows = by("windows-rows");
  redraw(rows, ...shown.toReversed().flatMap((one) => windowRows(one, first, now)));
  rows.querySelector(".chosen")?.scrollIntoView({ block: "nearest" });
}

/** When its states began, in their order. @param {Windowed} one @returns {[string, number][]} */
function moments(one) {
  return STATES.flatMap((state) => (one.times[state] ? [[state, Date.parse(one.times[state])]] : []));
}

/** @param {Windowed} one @param {number} first @param {number} now */
function windowRows(one, first, now) {
  const hot = Object.entries(one.hot ?? {}).sort(([, a], [, b]) => b - a);
  const more = hot.length > HOT_SHOWN ? `, ${hot.length - HOT_SHOWN} more` : "";
  const proven = one.times.proven ? `, proven ${told(one.times.proven)}` : "";
  const made = row([
    one.window,
    `${one.state}${one.since ? ` since ${told(one.since)}` : ""}`,
    life(one, first, now), one.shards, one.keys, one.events,
    one.archive ? `${one.archive}${one.items ? `, ${number(one.items)} items` : ""}${proven}` : "",
    el("bdi", {}, hot.slice(0, HOT_SHOWN).map(([key, n]) => `${visible(key)}: ${n}`).join(", ") + more),
  ]);
  made.classList.toggle("late", !!one.late);
  made.classList.toggle("chosen", one.window === chosen);
  if (!one.late) return [made];
  return [made, el("tr", { class: "late" }, el("td", { colspan: "8" },
    el("strong", {}, `late: ${one.late}. `), el("span", {}, one.remedy)))];
}

/** Its states as a strip of time. @param {Windowed} one @param {number} first @param {number} now */
function life(one, first, now) {
  const found = moments(one), scale = LIFE / Math.max(1, now - first);
  const words = found.map(([state, at]) => `${state} ${both(at)}`).join(", ");
  return svg("svg", { role: "img", "aria-label": words, width: LIFE, height: TALL },
    svg("title", {}, words),
    ...found.map(([state, at], place) => {
      const until = found[place + 1]?.[1] ?? (state === "dropped" ? at : now);
      return svg("rect", { class: `is-${state}`, x: Math.min(LIFE - 2, (at - first) * scale),
        width: Math.max(2, (until - at) * scale), height: TALL });
    }));
}

// Health

/** @param {Health} answer */
function drawHealth({ status, now, unknown, gauges, alarms }) {
  const { queue, window, oldest_sent: oldest } = status;
  redraw(by("facts"), facts(...Object.entries({
    "messages waiting": queue ? `${number(queue.visible)}, and ${number(queue.in_flight)} in flight,`
      + ` ${number(queue.delayed)} delayed` : "there is no such queue",
    "the oldest message": oldest && `sent ${told(oldest)}, ${span(now - Date.parse(oldest))} ago`,
    "all counted up to": status.counted_up_to ? told(status.counted_up_to) : "not known",
    "current window": window ? el("span", {}, windowLink(window.window), `, ${window.state ?? "not made"}`,
      window.takes_events ? "" : ", takes no events") : "there is none",
    "dead letters": status.dead_letters ?? "there is no such queue",
    "events a second": status.rate === undefined ? "not known" : `${rate(status.rate)}, by CloudWatch`,
    ...Object.fromEntries(Object.entries(unknown).map(([what, why]) => [what, `not known: ${visible(why)}`])),
  })));
  redraw(by("gauges"), table("metrics of the last hour, by CloudWatch",
    ["metric", "course", "last", "most", "sum"], Object.entries(gauges).map(([what, pairs]) => {
      const values = pairs.map(([, value]) => value);
      return [what, spark(pairs, now), values.at(-1), values.length && Math.max(...values),
        values.reduce((a, b) => a + b, 0)];
    })));
  redraw(by("alarms"), alarms.length ? table("the deployment's alarms", ["alarm", "state", "says"],
    alarms.map((one) => [one.name, one.state, visible(one.says)]))
    : para(unknown.alarms ? `They could not be read: ${visible(unknown.alarms)}` : "There are no alarms here."));
  return lacking(unknown);
}

/** @param {Health["unknown"]} unknown */
function lacking(unknown) {
  const parts = Object.keys(unknown).join(", ");
  return parts && `incomplete: ${parts} not known`;
}

/** @param {[number, number][]} pairs @param {number} now */
function spark(pairs, now) {
  const most = Math.max(1, ...pairs.map(([, value]) => value));
  return svg("svg", { class: "spark", "aria-hidden": "true", width: SPARK, height: SPARK_TALL },
    ...pairs.map(([at, value]) => svg("rect", { width: 2, x: SPARK * (1 - (now - at) / 3_600_000),
      y: SPARK_TALL * (1 - value / most), height: (SPARK_TALL * value) / most })));
}

/** @param {Checks} answer */
function drawChecks({ checks }) {
  checks.sort((a, b) => WORST.indexOf(a.level) - WORST.indexOf(b.level));
  redraw(by("checks"), table("as `tallyroll doctor` has it", ["check", "level", "means", "do"],
    checks.map((one) => [one.check, one.level,
      visible([one.text, ...one.signs.slice(1, 4).map((sign) => sign.text)].join("; ")),
      visible([...new Set(one.signs.slice(0, 4).map((sign) => sign.remedy ?? ""))].join(" "))])));
}

/** @param {Letters} answer */
function drawLetters({ seen, expected, groups, letters }) {
  redraw(by("letters"), ...(groups.length ? [
    table(`dead letters by reason and window; looked at ${number(seen)} of about ${number(expected)}`,
      ["reason", "window", "count", "oldest sent", "first expires"], groups.map((one) => [one.reason,
        one.window && windowLink(one.window), one.count, told(one.oldest), told(one.expires)])),
    el("details", {}, el("summary", {}, "Samples"), ...letters.map(letter)),
  ] : [para(expected ? `Others look at about ${number(expected)} now.`
    : "There are no dead letters.")]));
}

// How it works

let drawnPath = "";

/** @param {Health} answer */
function drawPath({ gauges, now, shape, status, unknown }) {
  const lately = (/** @type {string} */ gauge) => (gauges[gauge]?.reduce((total, [at, value]) =>
    total + (at > now - MINUTES * MINUTE_MS ? value : 0), 0) ?? NaN) / MINUTES;
  const messages = lately("messages of batches"), batches = lately("batches");
  const requests = lately("requests for single events") + lately("requests for packed events")
    + (lately("requests for logged events") || 0);
  const events = lately("events counted"), waiting = status.queue?.visible ?? NaN;
  const { shards, stripes_min: stripes, gates, hot } = shape ?? { shards: NaN, stripes_min: NaN, gates: NaN };
  const steps = [
    `Producers send messages to the queue: ${rate(messages)} a minute of late; ${number(waiting)} wait now.`,
    `Lambda gathers messages into batches for writers: ${rate(batches)} a minute.`,
    `A writer stores a batch's records by transactions: ${rate(requests)} requests a minute. Each checks one of`
      + ` ${number(gates)} gates, puts records that are not there, and adds to a tally: all of it, or nothing.`,
    `A hash of its id puts a record into one of a key's ${number(shards)} shards: a message that comes twice`
      + ` meets its own record, and adds nothing. ${number(hot ? Object.keys(hot).length : NaN)} hot keys have shards of their own.`,
    `A count adds up a tally's stripes, ${number(stripes)} at first: ${rate(events)} events a minute were counted.`,
    "When a window is over, its gates are shut, its tallies become totals, and its table is exported,"
      + " recounted, and only then dropped.",
  ];
  const key = String(steps);
  if (key === drawnPath) return lacking(unknown);
  drawnPath = key;
  by("steps").replaceChildren(...steps.map((text) => el("li", {}, text)));
  const stages = [["queue", `${rate(messages)} messages`], ["batch", `${rate(batches)} batches`],
    ["transaction", `${rate(requests)} requests`], ["shards", `${number(shards)} a key`], ["tally", `${rate(events)} events`]];
  by("path").replaceChildren(svg("svg", { class: "path", role: "img", viewBox: "0 0 860 150", width: 860,
    "aria-label": `${stages.flat().join(", ")}: the path of an event, a minute` },
    svg("path", { d: "M20 60H840", class: "wire" }),
    ...stages.flatMap(([title, text], at) => [
      svg("rect", { class: "stage", x: 5 + at * 175, y: 10, width: 150, height: 100, rx: 8 }),
      svg("text", { x: 80 + at * 175, y: 30, class: "title" }, title),
      svg("text", { x: 80 + at * 175, y: 132 }, text)]),
    ...Array.from({ length: SHARDS_DRAWN }, (_, at) => svg("rect", { class: "shard",
      x: 566 + (at % 4) * 20, y: 36 + Math.floor(at / 4) * 17, width: 16, height: 13 })),
    ...Array.from({ length: Math.min(DOTS, Math.ceil(messages)) }, (_, at) =>
      svg("circle", { class: "dot", r: 6, cx: 20 + at * 140, cy: 60 }))));
  return lacking(unknown);
}

/** @type {Record<string, View>} */
export const views = {
  find: { needs: [] },
  windows: {
    needs: [{ path: "windows", every: QUARTER_MS, draw: drawWindows }],
    shown(detail) {
      chosen = detail;
    },
  },
  health: {
    needs: [
      { path: "health", every: QUARTER_MS, draw: drawHealth },
      { path: "letters", every: MINUTE_MS, draw: drawLetters },
      { path: "doctor", every: MINUTE_MS, draw: drawChecks },
    ],
  },
  how: { needs: [{ path: "health", every: QUARTER_MS, draw: drawPath }] },
};
