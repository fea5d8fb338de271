import type { Code, Noise } from "./noise.js";
import type { Ready, Value } from "./plan.js";

/** What leaves the device, as it stands in JSON. */
export type Report = boolean | number | string;

/** A way to draw: the names of its thresholds and whole numbers, what else must hold of a column, and how it draws. */
export interface Draw {
  thresholds?: string[];
  numbers?: string[];
  good?(ready: Ready): unknown;
  /** A value as a code, where that is not `encode`'s. */
  encode?(ready: Ready, value: Value): Code;
  draw(ready: Ready, code: any, noise: Noise): Promise<Report>; // of a `Code`: which one, `encode` says
}

export const place = (lane: number, level = 0, count = 0) => lane * 2 ** 28 + level * 2 ** 24 + count;
export const word = (block: Uint8Array, i: number) => new DataView(block.buffer, block.byteOffset).getBigUint64(8 * i, true);
const low = (block: Uint8Array, i: number) => new DataView(block.buffer, block.byteOffset).getUint32(8 * i, true);

/** 1 with probability t / 2^64. */
export const coin = async (noise: Noise, code: Code, t: bigint, lane: number) =>
  word(await noise(code, place(lane & ~1)), lane & 1) < t ? 1 : 0;

/** Uniform below n, at most 2^31; what is rejected draws at the next place. */
export async function uniform(noise: Noise, code: Code, n: number, lane: number, step?: number): Promise<number> {
  const rejected = 2 ** 32 % n;
  for (let k = 0; ; k++) {
    const x =
      step === undefined
        ? k ? low(await noise(code, place(lane, k % 8, k >> 3)), 0) : low(await noise(code, place(lane & ~1)), lane & 1)
        : low(await noise(code, place(lane, 10, step * 256 + k)), 0);
    // x n as two halves of 32 bits: a product of doubles has 53
    const part = (x & 0xffff) * n, top = (x >>> 16) * n + Math.floor(part / 65536);
    if ((top % 65536) * 65536 + (part % 65536) >= rejected) return Math.floor(top / 65536);
  }
}

/** A code with probability keep / 2^64, else uniform below n. */
export const kept = async (noise: Noise, code: number, value: number, keep: bigint, n: number) =>
  (await coin(noise, code, keep, 0)) ? value : uniform(noise, code, n, 1);

/** d bits, each 1 with probability q, that of the code with p; a byte decides all but 1 in 256. */
export async function bits(noise: Noise, code: number, d: number, p: bigint, q: bigint): Promise<Uint8Array> {
  const out = new Uint8Array(Math.ceil(d / 8)), parts = [p, q].map((t) => ({ head: Number(t >> 56n), tail: t & ((1n << 56n) - 1n) }));
  const blocks = await Promise.all(Array.from({ length: Math.ceil(d / 16) }, (_, i) => noise(code, place(0, 8, i))));
  for (let j = 0; j < d; j++) {
    const { head, tail } = parts[j === code ? 0 : 1], byte = blocks[j >> 4][j & 15];
    const tie = byte === head && tail > 0n && word(await noise(code, place(0, 9, j)), 0) >> 8n < tail;
    if (byte < head || tie) out[j >> 3] |= 1 << (j & 7);
  }
  return out;
}

export const base64 = (bytes: Uint8Array) => btoa(String.fromCharCode(...bytes));

function value({ column: { input } }: Ready, code: number): Report {
  const label = input.labels![code] ?? "other";
  return input.kind === "bool" && input.unmatched !== "other" ? label === "true" : label;
}

/** The ways to draw that this program has: these few, and after `import "./more.js"` all of docs/wire.md. */
export const DRAWS: Record<string, Draw> = {
  coins: {
    thresholds: ["no", "yes"],
    good: ({ t, d }) => d === 2 && t.yes > t.no,
    draw: async (ready, code, noise) => {
      const { no, yes } = ready.t;
      if (no + yes === 1n << 64n) return value(ready, (await coin(noise, code, no, 0)) ^ code);
      return value(ready, await coin(noise, code, code ? yes : no, code));
    },
  },
  keep: { thresholds: ["keep"], draw: async (ready, code, noise) => value(ready, await kept(noise, code, code, ready.t.keep, ready.d)) },
  bits: {
    thresholds: ["p", "q"],
    good: ({ t, d, column }) => t.p > t.q && column.report.length === d,
    draw: async ({ t, d }, code, noise) => base64(await bits(noise, code, d, t.p, t.q)),
  },
};
