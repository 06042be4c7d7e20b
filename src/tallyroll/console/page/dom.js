// @ts-check
// Elements, texts and times. Texts of others go into text nodes alone.

/** @typedef {string | number | Node | null | undefined | false} Part */

/** @param {string} id */
export function by(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}

/**
 * Draw anew: focus and what is unfolded stay.
 * @param {HTMLElement} box @param {Node[]} nodes
 */
export function redraw(box, ...nodes) {
  const stops = () => [...box.querySelectorAll(/** @type {"a"} */ ("a, button, summary, [tabindex]"))];
  const at = stops().findIndex((stop) => stop === document.activeElement);
  const open = [...box.querySelectorAll("details")].map((details) => details.open);
  box.replaceChildren(...nodes);
  box.querySelectorAll("details").forEach((details, at) => { details.open = !!open[at]; });
  if (at >= 0) stops()[at]?.focus({ preventScroll: true });
}

/** @typedef {Record<string, string | number | boolean>} Attributes */

/** An element. @param {string} name @param {Attributes} [attributes] @param {Part[]} parts */
export function el(name, attributes = {}, ...parts) {
  return fill(document.createElement(name), attributes, parts);
}

/** The same of SVG. @param {string} name @param {Attributes} [attributes] @param {Part[]} parts */
export function svg(name, attributes = {}, ...parts) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, parts);
}

/**
 * @template {Element} T
 * @param {T} element @param {Attributes} attributes @param {Part[]} parts
 */
function fill(element, attributes, parts) {
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  for (const part of parts)
    if (part || part === 0)
      element.append(typeof part === "number" ? number(part) : part);
  return element;
}

/** Put a text where another one is. @param {Element} element @param {string} text */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * A table that scrolls by itself: rows are cells, the first of each its header.
 * @param {string} caption @param {string[]} heads @param {Part[][]} rows
 */
export function table(caption, heads, rows) {
  return el("div", { class: "wide", tabindex: 0, role: "region", "aria-label": caption },
    el("table", {}, el("caption", {}, caption),
      el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", { scope: "col" }, head)))),
      el("tbody", {}, ...rows.map(row))));
}

/** @param {Part[]} cells */
export function row([first, ...rest]) {
  return el("tr", {}, el("th", { scope: "row" }, first),
    ...rest.map((cell) => el("td", { class: typeof cell === "number" ? "number" : "" }, cell)));
}

/** @param {number} digits after the point, at most; or three that are no zeros */
function format(digits) {
  const made = new Intl.NumberFormat("en-US",
    { maximumFractionDigits: digits, maximumSignificantDigits: 3, roundingPriority: "morePrecision" });
  return (/** @type {number} */ value) => (Number.isNaN(value) ? "–" : made.format(value));
}

export const number = format(6), rate = format(1);

/** A sum, whose text has all digits. @param {string} text */
export function sum(text) {
  const [whole, part] = text.split(".");
  const integer = BigInt(whole || "0");
  const sign = whole?.startsWith("-") && !integer ? "-" : "";
  return sign + integer.toLocaleString("en-US") + (part ? `.${part}` : "");
}

/** A key or another text of somebody, with what cannot be seen in it made visible.
 * @param {string} text
 */
export function visible(text) {
  return text.replace(/^ | $|[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu,
    (hidden) => `\\u${(hidden.codePointAt(0) ?? 0).toString(16).padStart(4, "0")}`);
}

/** @param {string} text */
export const name = (text) => el("bdi", { "data-name": "" }, visible(text));

/** @type {Map<string, Intl.DateTimeFormat>} */
const formats = new Map();

/** An instant on the clocks of a zone: `2026-11-20 08:15:00`. @param {number} ms @param {string} zone */
export function clock(ms, zone) {
  let format = formats.get(zone);
  if (!format) {
    format = new Intl.DateTimeFormat("sv-SE", { timeZone: zone, dateStyle: "short", timeStyle: "medium" });
    formats.set(zone, format);
  }
  return format.format(ms);
}

export const HERE = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";

/** An instant in UTC, with the local time beside. @param {number} ms */
export function both(ms) {
  const utc = `${clock(ms, "UTC")} UTC`;
  return HERE === "UTC" ? utc : `${utc} (${clock(ms, HERE)} here)`;
}

/** The instant of a wall clock's text in a zone. @param {string} text @param {string} zone */
export function instant(text, zone) {
  const wall = Date.parse(`${text}Z`);
  let at = wall;
  for (let tries = 0; tries < 2; tries += 1)
    at -= Date.parse(`${clock(at, zone).replace(" ", "T")}Z`) - wall;
  return at;
}

/** A span of time, as people say it. @param {number} ms */
export function span(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 120) return `${s} s`;
  if (s < 7_200) return `${Math.round(s / 60)} min`;
  return s < 172_800 ? `${Math.round(s / 3_600)} h` : `${Math.round(s / 86_400)} days`;
}

/** A link to a window's row. @param {string} id */
export const windowLink = (id) => el("a", { href: `#windows/${id}` }, id);

const token = new URLSearchParams(location.hash.slice(1)).get("token");
if (token) {
  sessionStorage.setItem("token", token);
  history.replaceState(null, "", location.pathname + location.search);
}

/** What is answered that is no answer. */
export class Problem extends Error {
  /** @param {string} detail @param {Record<string, any>} body */
  constructor(detail, body) {
    super(detail);
    this.body = body;
  }
}

/**
 * An answer. Throws Problem for what the server says, and other errors if it says nothing.
 * @param {string} path @param {URLSearchParams} [query]
 * @returns {Promise<any>}
 */
export async function ask(path, query) {
  const known = sessionStorage.getItem("token");
  const reply = await fetch(`api/${path}${query ? `?${query}` : ""}`, {
    headers: known ? { Authorization: `Bearer ${known}` } : {},
    cache: "no-store",
    signal: AbortSignal.timeout(30_000),
  });
  const body = await reply.json();
  if (!reply.ok) throw new Problem(`${body.title}: ${body.detail}`, body);
  return body;
}
