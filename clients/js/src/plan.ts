import { DRAWS } from "./draw.js";
import { PlanError, ValueError } from "./errors.js";

export type Item = boolean | number | bigint | string | null | undefined;
/** A value of a record; a list of items where the plan takes sets. */
export type Value = Item | Item[];

export interface Input {
  kind: "bool" | "int" | "str" | "number";
  unmatched: "error" | "other" | "none" | "clip";
  labels?: string[];
  low?: number;
  high?: number;
  edges?: number[];
  missing?: number;
  whole?: boolean;
  most?: number;
  on_more?: "error" | "first";
}

/** One column of a compiled plan, as docs/wire.md has it; thresholds are decimal text, over 2^64. */
export interface Column {
  mechanism: string;
  epsilon: number;
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

const ONE = 1n << 64n;
/** A threshold: decimal text of an integer above 0 and below 2^64. */
export function threshold(text: unknown): bigint {
  const made = typeof text === "string" && /^[1-9][0-9]{0,19}$/.test(text) ? BigInt(text) : ONE;
  return made < ONE ? made : wrong("thresholds must be decimal text, above 0 and below 2^64");
}

const wrong = (message: string): never => {
  throw new PlanError(`no compiled plan: ${message}`);
};

/** Check a compiled plan before anything is drawn with it; throws `PlanError`. */
export function read(plan: Plan): Ready[] {
  if (plan?.ldp_plan !== 1) wrong("this client reads version 1");
  if (typeof plan.fingerprint !== "string" || !Array.isArray(plan.keep)) wrong("no fingerprint, or no list of kept columns");
  const names = Object.keys(plan.columns ?? {});
  if (!names.length) wrong("it has no columns");
  return names.map((name) => ready(name, plan.columns[name]));
}

function ready(name: string, column: Column): Ready {
  const { input, report, draw, digest } = column ?? {}, bad = (what: string) => wrong(`column ${name} has ${what}`);
  if (!input || !report || !Object.hasOwn(DRAWS, draw)) bad("an unknown draw");
  if (!/^[0-9a-f]{64}$/.test(digest)) bad("no digest");
  const { thresholds = [], numbers = [], good } = DRAWS[draw], t: Record<string, bigint> = {}, codes = new Map<string, number>();
  for (const key of thresholds) t[key] = threshold(column[key]);
  let d = 0;
  if (input.kind === "number") {
    const ends = input.edges ?? [input.low, input.high];
    if (!ends.every((x, i) => Number.isFinite(x) && (!i || x! > ends[i - 1]!))) bad("no interval");
    d = ends.length - 1;
  } else {
    input.labels?.forEach((label, code) => codes.set(label, code));
    d = codes.size + (input.unmatched === "other" ? 1 : 0);
    if (codes.size !== input.labels?.length || d < 2) bad("no two different labels");
  }
  const made = { name, column, t, codes, d };
  if (!numbers.every((key) => Number.isSafeInteger(column[key]) && column[key] > 0) || (good && !good(made))) bad("wrong numbers");
  return made;
}

export const refused = (name: string): never => {
  throw new ValueError(`column ${name}: the value is not one that the plan declares`);
};

const GRID = 2 ** 24;

/** A value as a code, `d` for none of the labels; throws `ValueError` for what the plan does not take. */
export function encode({ name, column: { input }, codes }: Ready, value: Value): number {
  const refuse = () => refused(name);
  const none = value === null || value === undefined;
  if (input.kind !== "number") {
    const kind = { boolean: "bool", bigint: "int", number: "int", string: "str" }[typeof value as string];
    if (!none && (kind !== input.kind || (typeof value === "number" && !Number.isSafeInteger(value)))) refuse();
    const code = none ? undefined : codes.get(String(value));
    return code ?? (input.unmatched === "error" ? refuse() : codes.size);
  }
  if (!none && typeof value !== "number") refuse();
  let x = none || Number.isNaN(value) ? (input.missing ?? refuse()) : (value as number);
  const { edges } = input, low = edges ? edges[0] : input.low!, high = edges ? edges[edges.length - 1] : input.high!;
  if (input.unmatched === "clip") x = Math.min(Math.max(x, low), high);
  if (!(x >= low && x <= high)) refuse();
  if (input.whole) {
    if (x === value && input.unmatched === "error" && !Number.isInteger(x)) refuse();
    x = Math.min(Math.max(rint(x), low + 0.5), high - 0.5);
  }
  if (edges) return edges.slice(1, -1).filter((edge) => edge <= x).length;
  return rint((x - low) * (GRID / (high - low)));
}

/** To the nearest integer, halves to the even one. */
function rint(x: number): number {
  const up = Math.round(x);
  return up - x === 0.5 && up % 2 ? up - 1 : up;
}
