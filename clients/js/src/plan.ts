import { type Column, DRAWS, type Input, type Ready, type Value } from "./draw.js";
import { PlanError, ValueError } from "./errors.js";
import { isText } from "./noise.js";

export interface Plan {
  ldp_plan: 1; fingerprint: string; epsilon: number; keep: string[]; patterns?: Record<string, string>;
  columns: Record<string, Column>;
}

const wrong = (message: string): never => {
  throw new PlanError(`no compiled plan: ${message}`);
};

/** A threshold: decimal text of an integer above 0 and below 2^64. */
export function threshold(text: unknown): bigint {
  if (isText(text) && /^[1-9]\d{0,19}$/.test(text) && !(BigInt(text) >> 64n)) return BigInt(text);
  return wrong("a threshold is text below 2^64");
}

/** Check a compiled plan before anything is drawn with it; throws `PlanError`. */
export function read(plan: Plan): Ready[] {
  if (plan?.ldp_plan !== 1) wrong("this client reads version 1");
  const { fingerprint, keep, patterns, columns } = plan, names = Array.isArray(columns) ? [] : Object.keys(columns ?? {});
  if (!Array.isArray(keep) || ![fingerprint, ...keep].every(isText)) wrong("no fingerprint or keep");
  if (!names.length || new Set([...keep, ...names]).size < keep.length + names.length) wrong("no columns, or one twice");
  try {
    keep.forEach((name) => RegExp(patterns?.[name]!));
    return names.map((name) => ready(name, columns[name]));
  } catch (e) {
    throw e instanceof PlanError ? e : wrong(`${e}`); // another type than it should be
  }
}

const KINDS: Record<string, string> = { boolean: "bool", bigint: "int", number: "int" };
const LABELS: Record<string, RegExp> = { bool: /^(true|false)$/, int: /^(0|-?[1-9]\d*)$/, str: /^/, date: /^/ };

function ready(name: string, column: Column): Ready {
  const { input, report, draw, digest } = column, bad = (what: string) => wrong(`column ${name} has ${what}`);
  if (!Object.hasOwn(DRAWS, draw) || report.layout !== DRAWS[draw].layout) bad("an unknown draw or layout");
  if (!isText(digest) || !/^[0-9a-f]{64}$/.test(digest)) bad("no digest");
  const { chances = [], needs = [], takes = ["labels"], none, size, good } = DRAWS[draw];
  const t = Object.fromEntries(chances.map((key) => [key, threshold(column[key])])), codes = new Map<string, number>();
  const { kind, unmatched, labels, edges, end, missing, most } = input, number = kind === "number", date = kind === "date";
  const form = !number ? "labels" : edges ? "edges" : "ends", not = [...(number ? [] : ["other", none && "none"]), (number || date) && "clip"];
  if (!takes.includes(form) || (most !== undefined) !== (draw === "set")) bad("an input of another draw");
  if (unmatched !== "error" && !not.includes(unmatched)) bad("an unknown unmatched");
  let d = (edges?.length ?? 2) - 1;
  if (!number) {
    const good = (text: unknown) => isText(text) && LABELS[kind].test(text) && (!date || moment(text, end!) === text);
    if (!labels!.every(good)) bad("labels of another kind");
    labels!.forEach((label, code) => codes.set(label, code));
    d = codes.size + (unmatched === "other" ? 1 : 0);
    if (codes.size < labels!.length || d < 2 || (unmatched === "other" && codes.has("other"))) bad("no two different labels");
    const later = good(end) && [...labels!, end!].every((text, i, all) => !i || text > all[i - 1]);
    const inside = missing === undefined || begun(missing as string, { ...input, missing: undefined, unmatched: "error" });
    if (date && !(later && inside)) bad("no ascending dates");
  }
  const made = { name, column, t, codes, d };
  if (!needs.every((key) => counts(column[key])) || (good && !good(made))) bad("wrong parameters");
  if (size && size(made) !== report[report.layout === "bits" ? "length" : "limit"]) bad("another size");
  return made;
}

/** Whether this is an integer from 1 to `most`. */
export const counts = (x: unknown, most = 2 ** 53) => Number.isSafeInteger(x) && (x as number) > 0 && (x as number) <= most;

export const refused = (name: string): never => { throw new ValueError(`${name}: the plan takes no such value`); };

/** A value as a code, `d` for none of the labels; throws `ValueError` for what the plan does not take. */
export function encode(ready: Ready, value: Value): number {
  const { name, column: { input }, codes } = ready;
  const kind = isText(value) ? "str" : KINDS[typeof value], none = value === null || value === undefined;
  if (!none && (input.kind === "date" ? "str" : input.kind) !== kind) refused(name);
  if (typeof value === "number" && !Number.isSafeInteger(value)) refused(name);
  const label = input.kind === "date" ? begun(value as string | null, input) : none || String(value); // (true is no label)
  return codes.get(label as string) ?? (["other", "none"].includes(input.unmatched) ? codes.size : refused(name));
}

/** A day or a time as labels have it, if it is one. */
function moment(value: string | null | undefined, end: string): string | undefined {
  const [, day, time = "00:00:00"] = /^(.{10})(?:[T ](.{8})(?:\.\d{1,9})?Z?)?$/.exec(value!) ?? []; // ("null" is no date)
  const real = new Date(`${day}T${time}Z`).toJSON()?.startsWith(`${day}T${time}`); // else a day too late in its month
  return real ? `${day} ${time}`.slice(0, end?.length) : undefined;
}

/** The label of the cell that a date is in, if it is in one: the last that has begun. */
function begun(value: string | null | undefined, { labels, end, missing, unmatched }: Input): string | undefined {
  const text = moment(value, end!) ?? moment(/:.*[+-]/.test(value!) ? "" : missing as string, end!); // (a zone is no null)
  if (!text || (unmatched !== "clip" && (text < labels![0] || text >= end!))) return undefined;
  return labels!.filter((label) => label <= text).pop() ?? labels![0];
}
