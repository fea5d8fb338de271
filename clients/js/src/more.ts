import { base64, bits, coin, type Draw, DRAWS, kept, type Report, uniform } from "./draw.js";
import type { Code, Noise } from "./noise.js";
import { encode, type Item, type Ready, refused, threshold, type Value } from "./plan.js";

type Level = { bits: number; head: number; favored: number; p: string; polynomial?: number; basis?: number[] };

const choose = (a: number, b: number): number => (b < 0 || b > a ? 0 : b ? (choose(a - 1, b - 1) * a) / b : 1);

/** The r-th of the words of n bits with k ones, in ascending order. */
function unranked(r: number, n: number, k: number): number {
  let out = 0;
  for (let bit = n - 1; bit >= 0; bit--) {
    const without = choose(bit, k);
    if (r < without) continue;
    r -= without;
    k--;
    out |= 1 << bit;
  }
  return out;
}

async function subset({ column, t, d }: Ready, code: number, noise: Noise): Promise<Uint8Array> {
  const k: number = column.ones;
  if (!t.q) {
    const own = await coin(noise, code, t.p, 0), ones = k - own;
    const others = unranked(await uniform(noise, code, choose(d - 1, ones), own ? 2 : 3), d - 1, ones);
    const below = others & ((1 << code) - 1), row = (2 * others - below) | (own << code);
    return new Uint8Array([row, row >> 8, row >> 16]).slice(0, Math.ceil(d / 8));
  }
  return repaired(await bits(noise, code, d, t.p, t.q), k, d, code, noise, [code]);
}

/** Flip bits that are not settled, drawn one by one, until k of d are 1. */
async function repaired(row: Uint8Array, k: number, d: number, code: Code, noise: Noise, settled: number[]): Promise<Uint8Array> {
  let excess = -k;
  for (let j = 0; j < d; j++) excess += (row[j >> 3] >> (j & 7)) & 1;
  for (let step = 0; excess; step++) {
    const j = await uniform(noise, code, d, 1, step), one = (row[j >> 3] >> (j & 7)) & 1;
    if (settled.includes(j) || !!one !== excess > 0) continue;
    row[j >> 3] ^= 1 << (j & 7);
    excess -= Math.sign(excess);
  }
  return row;
}

/** The places of a list: its different items in order, then pads. */
function places(ready: Ready, value: Value): number[] {
  const { name, column: { input }, d } = ready, most = input.most!;
  if (value != null && !Array.isArray(value)) refused(name);
  const items = [...new Set(Array.from((value ?? [value]) as Item[], (item) => encode(ready, item)))];
  if (items.length > most && input.on_more !== "first") refused(name);
  const first = items.slice(0, most).sort((a, b) => a - b);
  return [...first, ...Array.from({ length: most - first.length }, (_, j) => d + j)];
}

/** PrivSet: k of d + most places. */
async function set({ column, t, d }: Ready, own: number[], noise: Noise): Promise<Uint8Array> {
  const k: number = column.ones, most = own.length, size = d + most, row = new Uint8Array(Math.ceil(size / 8));
  if (!(await coin(noise, own, t.p, 0))) return repaired(row, k, size, own, noise, own);
  for (let step = 0; ; step += most) {
    const first = await uniform(noise, own, most, 3, step);
    let before = k === 1 ? first : 0; // of the items before it, those that the k - 1 other places avoid
    while (before < first && (await uniform(noise, own, size - 1 - before, 3, step + 1 + before)) < size - k - before) before++;
    if (before < first) continue;
    row[own[first] >> 3] |= 1 << (own[first] & 7);
    return repaired(row, k, size, own, noise, own.slice(0, first + 1));
  }
}

async function hash({ column, t }: Ready, code: number, noise: Noise): Promise<Report> {
  const { buckets: g, prime, functions } = column;
  let own = 0, number: number; // (the code of a value that is none is hashed, too)
  if (prime) {
    const a = await uniform(noise, code, prime, 2), b = await uniform(noise, code, prime, 3);
    number = a * 2 ** 24 + b;
    own = Math.floor((((a * code + b) % prime) * g) / prime);
  } else {
    number = await uniform(noise, code, functions, 2);
    for (let f = number, v = code; v; f = Math.floor(f / g), v = Math.floor(v / g)) own = (own + (f % g) * (v % g)) % g;
  }
  return String((BigInt(await kept(noise, code, own, t.keep, g)) << 48n) | BigInt(number));
}

const odd = (x: number) => {
  for (let s = 16; s; s >>= 1) x ^= x >>> s;
  return x & 1;
};

async function hadamard({ column, t, d }: Ready, code: number, noise: Noise): Promise<Report> {
  const agree = await coin(noise, code, t.agree, 0), column_ = await uniform(noise, code, column.columns, 1);
  const row = code === d ? 0 : code + 1; // a value that is none has no bits, and its column stays uniform
  return String((odd(row & column_) === agree ? column_ ^ (row & -row) : column_) >>> 0);
}

async function window({ column, t }: Ready, code: number, noise: Noise): Promise<number> {
  const { cells: m, window: w, buckets } = column;
  const first = buckets
    ? Math.min(Math.floor((code * buckets + Math.floor(buckets / 2)) / 2 ** 24), buckets - 1)
    : Math.floor((code * (m - w) + (await uniform(noise, code, 2 ** 24, 15))) / 2 ** 24);
  return (await coin(noise, code, t.keep, 14)) ? first + (await uniform(noise, code, w, 12)) : uniform(noise, code, m, 13);
}

/** The product of two elements of the field. */
function times(a: number, b: number, { bits, polynomial }: Level): number {
  let out = 0;
  for (; b; b >>= 1) {
    if (b & 1) out ^= a;
    a <<= 1;
    if (a >> bits) a ^= polynomial!;
  }
  return out;
}

async function tree({ column, t }: Ready, code: number, noise: Noise): Promise<Report> {
  const levels: Level[] = column.levels;
  let drawn = await uniform(noise, 0, 1024, 0), at = 0, first = 0;
  for (; drawn >= column.shares[at]; at++) {
    drawn -= column.shares[at];
    const { bits, head, polynomial } = levels[at];
    first += (polynomial ? 2 ** bits - 1 : 1) * 2 ** head;
  }
  const level = levels[at], { bits, head, favored, polynomial, basis } = level, node = code >> (levels.length - bits);
  const inside = await coin(noise, node, t[at], 0);
  const shift = inside ? await uniform(noise, node, favored, 1) : favored + (await uniform(noise, node, 2 ** head - favored, 2));
  if (!polynomial) return String(first + (shift ^ node));
  const multiplier = await uniform(noise, node, 2 ** bits - 1, 3);
  let element = basis!.reduce((sum, x, bit) => sum ^ ((node >> bit) & 1 ? x : 0), 0);
  for (let power = 2, m = multiplier; m; m >>= 1, power = times(power, power, level)) if (m & 1) element = times(element, power, level);
  return String(first + multiplier * 2 ** head + (shift ^ (element >> (bits - head))));
}

async function oneBit({ t }: Ready, code: number, noise: Noise): Promise<Report> {
  const up = Math.floor((code + (await uniform(noise, code, 2 ** 24, 15))) / 2 ** 24);
  return up !== (await coin(noise, code, t.flip, 14));
}

const isTree = ({ column: { levels, shares }, t, d }: Ready) => {
  levels.forEach((level: Level, i: number) => (t[i] = threshold(level.p)));
  return 2 ** levels.length >= d && shares.length === levels.length && shares.reduce((a: number, b: number) => a + b) === 1024;
};

Object.assign(DRAWS, {
  subset: {
    thresholds: ["p"],
    numbers: ["ones"],
    good: ({ column, t, d }) => {
      if (column.q !== undefined) t.q = threshold(column.q);
      return column.ones < d && column.report.length === d;
    },
    draw: async (ready, code, noise) => base64(await subset(ready, code, noise)),
  },
  set: {
    thresholds: ["p"],
    numbers: ["ones"],
    good: ({ column: { input: { most = 0 }, ones, report }, d }) =>
      Number.isSafeInteger(most) && most > 0 && ones <= d && report.length === d + most,
    encode: places,
    draw: async (ready, own, noise) => base64(await set(ready, own, noise)),
  },
  hash: { thresholds: ["keep"], numbers: ["buckets"], good: ({ column }) => column.prime || column.functions, draw: hash },
  hadamard: { thresholds: ["agree"], numbers: ["columns"], draw: hadamard },
  one_bit: { thresholds: ["flip"], draw: oneBit },
  window: { thresholds: ["keep"], numbers: ["cells", "window"], draw: window },
  tree: { good: isTree, draw: tree },
} satisfies Record<string, Draw>);
