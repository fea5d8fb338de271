import { DRAWS } from "./draw.js";
import { PlanError, ValueError } from "./errors.js";

export type Item = boolean | number | bigint | string | null | undefined;
/** A value of a record; a list of items where the plan takes sets. */
export type Value = Item | Item[];

export interface Input {
  kind: "bool" | "int" | "str" | "date" | "number";
  unmatched: "error" | "other" | "none" | "clip";
  labels?: string[];
  end?: string;
  low?: number;
  high?: number;
  edges?: number[];
  missing?: number | string;
  whole?: boolean;
  most?: number;
  on_more?: "error" | "first";
}

/** One column of a compiled plan, as docs/wire.md has it; thresholds are decimal text, over 2^64. */
export interface Column {
  digest: string;
  draw: string;
  input: Input;
  report: { layout: "value" | "bits" | "word" | "symbol" | "flag"; length?: number; limit?: number | string };
  [parameter: string]: any;
}

export interface Plan {
  ldp_plan: 1;
  fingerprint: string;
  epsilon: number;
  keep: string[];
  columns: Record<string, Column>;
}

/** A column that has been checked: its thresholds as integers, its labels by their text, and their number. */
export interface Ready {
  name: string;
  column: Column;
  t: Record<string, bigint>;
  codes: Map<string, number>;
  d: number;
}

const wrong = (message: string): never => {
  throw new PlanError(`no compiled plan: ${message}`);
};

/** A threshold: decimal text of an integer above 0 and below 2^64. */
export function threshold(text: unknown): bigint {
  if (typeof text === "string" && /^[1-9][0-9]{0,19}$/.test(text) && BigInt(text) >> 64n === 0n) return BigInt(text);
  return wrong("thresholds must be decimal text, above 0 and below 2^64");
}
const THRESHOLDS = ["no", "yes", "keep", "p", "q", "agree", "flip"];

/** Check a compiled plan before anything is drawn with it; throws `PlanError`. */
export function read(plan: Plan): Ready[] {
  if (plan?.ldp_plan !== 1) wrong("this client reads version 1");
  if (typeof plan.fingerprint !== "string" || !Array.isArray(plan.keep)) wrong("no fingerprint, or no list of kept columns");
  const names = Object.keys(plan.columns ?? {});
  if (!names.length) wrong("it has no columns");
  return names.map((name) => ready(name, plan.columns[name]));
}

const KINDS: Record<string, string> = { boolean: "bool", bigint: "int", number: "int", string: "str" };

function ready(name: string, column: Column): Ready {
  const { input, report, draw, digest } = column ?? {}, bad = (what: string) => wrong(`column ${name} has ${what}`);
  if (!input || !report || !Object.hasOwn(DRAWS, draw)) bad("an unknown draw");
  if (!/^[0-9a-f]{64}$/.test(digest)) bad("no digest");
  const { needs = [], good } = DRAWS[draw], t: Record<string, bigint> = {}, codes = new Map<string, number>();
  for (const key of THRESHOLDS) if (needs.includes(key) || key in column) t[key] = threshold(column[key]);
  let d = 0;
  if (input.kind === "number") {
    const ends = input.edges ?? [input.low, input.high];
    if (!ends.every((x, i) => Number.isFinite(x) && (!i || x! > ends[i - 1]!))) bad("no interval");
    d = ends.length - 1;
  } else {
    const { labels = [], kind, end } = input, last = labels[labels.length - 1];
    labels.forEach((label, code) => codes.set(label, code));
    d = codes.size + (input.unmatched === "other" ? 1 : 0);
    if (codes.size !== labels.length || d < 2) bad("no two different labels");
    if (kind === "date" ? !(end! > last && end!.length === last.length) : !Object.values(KINDS).includes(kind)) bad("an unknown kind");
  }
  const made = { name, column, t, codes, d };
  if (!needs.every((key) => key in t || (Number.isSafeInteger(column[key]) && column[key] > 0))) bad("wrong numbers");
  if (report.layout === "bits" && report.length !== d + (input.most ?? 0)) bad("another length");
  if (good && !good(made)) bad("wrong parameters");
  return made;
}

export const refused = (name: string): never => {
  throw new ValueError(`column ${name}: the value is not one that the plan declares`);
};

/** A value as a code, `d` for none of the labels; throws `ValueError` for what the plan does not take. */
export function encode(ready: Ready, value: Value): number {
  const { name, column: { input }, codes } = ready;
  if (input.kind === "number") return gridded(value, input) ?? refused(name);
  const kind = KINDS[typeof value], none = value === null || value === undefined;
  if (!none && (input.kind === "date" ? "str" : input.kind) !== kind) refused(name);
  if (typeof value === "number" && !Number.isSafeInteger(value)) refused(name);
  const label = input.kind === "date" ? begun(value as string | null, input) : none ? undefined : String(value);
  return codes.get(label!) ?? (["other", "none"].includes(input.unmatched) ? codes.size : refused(name));
}

/** The label of the cell that a date is in, if it is in one: the last that has begun. */
function begun(value: string | null | undefined, { labels, end, missing, unmatched }: Input): string | undefined {
  const [, day, time = "00:00:00"] = /^(.{10})(?:[T ](.{8})(?:\.\d+)?Z?)?$/.exec(value ?? "") ?? [];
  const real = new Date(`${day}T${time}Z`).toJSON()?.startsWith(`${day}T${time}`); // else a day too late in its month
  const text = real ? `${day} ${time}`.slice(0, end!.length) : (missing as string | undefined);
  if (!text || (unmatched !== "clip" && (text < labels![0] || text >= end!))) return undefined;
  return labels!.filter((label) => label <= text).pop() ?? labels![0];
}

/** A number as a code, if it has one. */
function gridded(value: Value, { low, high, edges, missing, unmatched, whole }: Input): number | undefined {
  const none = value === null || value === undefined || Number.isNaN(value), given = none ? missing : value;
  if (typeof given !== "number") return undefined;
  const [from, to] = edges ? [edges[0], edges[edges.length - 1]] : [low!, high!];
  let x = unmatched === "clip" ? Math.min(Math.max(given, from), to) : given;
  if (!(x >= from && x <= to) || (whole && !none && unmatched === "error" && !Number.isInteger(x))) return undefined;
  if (whole) x = Math.min(Math.max(rint(x), from + 0.5), to - 0.5);
  if (edges) return edges.slice(1, -1).filter((edge) => edge <= x).length;
  return rint((x - from) * (2 ** 24 / (to - from)));
}

/** To the nearest integer, halves to the even one. */
function rint(x: number): number {
  const up = Math.round(x);
  return up - x === 0.5 && up % 2 ? up - 1 : up;
}
