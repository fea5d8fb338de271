import type { Code, Noise } from "./noise.js";

export type Item = boolean | number | bigint | string | null | undefined;
/** A value of a record; a list of items where the plan takes sets. */
export type Value = Item | Item[];

export interface Input {
  kind: "bool" | "int" | "str" | "date" | "number";
  unmatched: "error" | "other" | "none" | "clip";
  labels?: string[];
  end?: string; // of dates
  low?: number; high?: number; edges?: number[]; whole?: boolean; // of numbers
  missing?: number | string;
  most?: number; on_more?: "error" | "first"; // of sets
}

/** One column of a compiled plan, as docs/wire.md has it; thresholds are decimal text, over 2^64. */
export interface Column {
  digest: string; draw: string; input: Input;
  report: { layout: "value" | "bits" | "word" | "symbol" | "flag"; length?: number; limit?: number | string };
  [parameter: string]: any;
}

/** A column that has been checked: its thresholds as integers, its labels by their text, and their number. */
export interface Ready {
  name: string; column: Column; t: Record<string, bigint>; codes: Map<string, number>; d: number;
}

/** What leaves the device, as it stands in JSON. */
export type Report = boolean | number | string;

/** A way to draw: the layout of reports, thresholds, integers, what else must hold of a column, and how it draws. */
export interface Draw {
  layout: string; chances?: string[]; needs?: string[];
  takes?: string[]; // "labels", and of numbers "ends" or "edges"
  none?: boolean; // whether a value may be none
  good?(ready: Ready): unknown;
  size?(ready: Ready): number | string; // the length or the limit of reports
  encode?(ready: Ready, value: Value): Code; // a value as a code, where that is not `encode`'s
  draw(ready: Ready, code: any, noise: Noise): Report; // of a `Code`: which one, `encode` says
}

const place = (lane: number, level = 0, count = 0) => lane * 2 ** 28 + level * 2 ** 24 + count;
const word = (block: Uint32Array, i = 0) => BigInt(block[2 * i]) | (BigInt(block[2 * i + 1]) << 32n);

/** 1 with probability t / 2^64. */
export const coin = (noise: Noise, code: Code, t: bigint, lane: number) =>
  word(noise(code, place(lane & ~1)), lane & 1) < t ? 1 : 0;

/** A number below n, at most 2^31, of 32 bits; what is rejected draws again. */
function scaled(n: number, drawn: (k: number) => number): number {
  for (let k = 0; ; k++) {
    const product = BigInt(drawn(k)) * BigInt(n);
    if (BigInt.asUintN(32, product) >= 2 ** 32 % n) return Number(product >> 32n);
  }
}

export const uniform = (noise: Noise, code: Code, n: number, lane: number) =>
  scaled(n, (k) => (k ? noise(code, place(lane, k % 8, k >> 3))[0] : noise(code, place(lane & ~1))[2 * (lane & 1)]));

/** `uniform` for a step of many. */
export const again = (noise: Noise, code: Code, n: number, lane: number, step: number) =>
  scaled(n, (k) => noise(code, place(lane, 10, 256 * step + k))[0]);

/** A code with probability keep / 2^64, else uniform below n. */
export const kept = (noise: Noise, code: number, value: number, keep: bigint, n: number) =>
  coin(noise, code, keep, 0) ? value : uniform(noise, code, n, 1);

/** d bits, each 1 with probability q, that of the code with p; a byte decides all but 1 in 256. */
export function bits(noise: Noise, code: number, d: number, p: bigint, q: bigint): number[] {
  let block: Uint32Array;
  return Array.from({ length: d }, (_, j) => {
    if (j % 16 === 0) block = noise(code, place(0, 8, j / 16));
    const t = j === code ? p : q, head = Number(t >> 56n), byte = (block[(j >> 2) % 4] >>> (8 * (j % 4))) & 255;
    return byte < head || (byte === head && word(noise(code, place(0, 9, j))) >> 8n < BigInt.asUintN(56, t)) ? 1 : 0;
  });
}

/** Bits in base64, the first in the lowest place of the first byte. */
export function packed(row: number[]): string {
  const bytes = new Uint8Array(Math.ceil(row.length / 8));
  row.forEach((bit, j) => (bytes[j >> 3] |= bit << (j & 7)));
  return btoa(String.fromCharCode(...bytes));
}

function value({ column: { input } }: Ready, code: number): Report {
  const label = input.labels![code] ?? "other";
  return input.kind === "bool" && input.unmatched !== "other" ? label === "true" : label;
}

function coins(ready: Ready, code: number, noise: Noise): Report {
  const { no, yes } = ready.t;
  if (no + yes === 1n << 64n) return value(ready, coin(noise, code, no, 0) ^ code);
  return value(ready, coin(noise, code, code ? yes : no, code));
}

/** The ways to draw that this program has: these few, and after `import "./more.js"` all of docs/wire.md. */
export const DRAWS: Record<string, Draw> = {
  coins: { layout: "value", chances: ["no", "yes"], good: ({ t, d }) => d === 2 && t.yes > t.no, draw: coins },
  keep: { layout: "value", chances: ["keep"], draw: (of, code, noise) => value(of, kept(noise, code, code, of.t.keep, of.d)) },
  bits: { layout: "bits", chances: ["p", "q"], none: true, size: ({ d }) => d, good: ({ t }) => t.p > t.q,
    draw: ({ t, d }, code, noise) => packed(bits(noise, code, d, t.p, t.q)) },
};
