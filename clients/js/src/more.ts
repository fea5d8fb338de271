import { again, bits, coin, type Draw, DRAWS, kept, packed, type Report, uniform } from "./draw.js";
import type { Code, Noise } from "./noise.js";
import { encode, type Item, type Ready, refused, threshold, type Value } from "./plan.js";

type Level = { bits: number; head: number; favored: number; p: string; polynomial?: number; basis?: number[] };

const choose = (a: number, b: number): number => (b < 0 || b > a ? 0 : b ? (choose(a - 1, b - 1) * a) / b : 1);

/** The bits, from the lowest, of the r-th of the words of n bits with k ones, in ascending order. */
function unranked(r: number, n: number, k: number): number[] {
  if (!n) return [];
  const without = choose(n - 1, k);
  return r < without ? [...unranked(r, n - 1, k), 0] : [...unranked(r - without, n - 1, k - 1), 1];
}

/** Flip bits that are not settled, drawn one by one, until `ones` of them are 1. */
function repaired(row: number[], ones: number, code: Code, noise: Noise, settled: number[]): string {
  let excess = row.reduce((sum, bit) => sum + bit, -ones);
  for (let step = 0; excess; step++) {
    const j = again(noise, code, row.length, 1, step);
    if (settled.includes(j) || row[j] !== (excess > 0 ? 1 : 0)) continue;
    row[j] ^= 1;
    excess -= Math.sign(excess);
  }
  return packed(row);
}

function subset({ column: { ones }, t, d }: Ready, code: number, noise: Noise): Report {
  if (t.q) return repaired(bits(noise, code, d, t.p, t.q), ones, code, noise, [code]);
  const own = coin(noise, code, t.p, 0), k = ones - own;
  const others = unranked(uniform(noise, code, choose(d - 1, k), own ? 2 : 3), d - 1, k);
  return packed([...others.slice(0, code), own, ...others.slice(code)]);
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

/** PrivSet: some of d + most places. */
function set({ column: { ones }, t, d }: Ready, own: number[], noise: Noise): Report {
  const most = own.length, size = d + most, row: number[] = Array(size).fill(0);
  if (!coin(noise, own, t.p, 0)) return repaired(row, ones, own, noise, own);
  for (let step = 0; ; step += most) {
    const first = again(noise, own, most, 3, step);
    let before = ones === 1 ? first : 0; // of the items before it, those that the other places avoid
    while (before < first && again(noise, own, size - 1 - before, 3, step + 1 + before) < size - ones - before) before++;
    if (before < first) continue;
    row[own[first]] = 1;
    return repaired(row, ones, own, noise, own.slice(0, first + 1));
  }
}

function hash({ column: { buckets, prime, functions }, t }: Ready, code: number, noise: Noise): Report {
  let own = 0, number: number; // (the code of a value that is none is hashed, too)
  if (prime) {
    const a = uniform(noise, code, prime, 2), b = uniform(noise, code, prime, 3);
    number = a * 2 ** 24 + b;
    own = Math.floor((((a * code + b) % prime) * buckets) / prime);
  } else {
    number = uniform(noise, code, functions, 2);
    for (let f = number, v = code; v; f = Math.floor(f / buckets), v = Math.floor(v / buckets)) own += (f % buckets) * (v % buckets);
  }
  return String((BigInt(kept(noise, code, own % buckets, t.keep, buckets)) << 48n) | BigInt(number));
}

function hadamard({ column: { columns }, t, d }: Ready, code: number, noise: Noise): Report {
  const agree = coin(noise, code, t.agree, 0), drawn = uniform(noise, code, columns, 1);
  const row = code === d ? 0 : code + 1; // a value that is none has no bits, and its column stays uniform
  const odd = (row & drawn).toString(2).replaceAll("0", "").length % 2;
  return String(odd === agree ? drawn ^ (row & -row) : drawn);
}

function window({ column: { cells, window: w, buckets }, t }: Ready, code: number, noise: Noise): Report {
  const first = buckets
    ? Math.min(Math.floor((code * buckets + Math.floor(buckets / 2)) / 2 ** 24), buckets - 1)
    : Math.floor((code * (cells - w) + uniform(noise, code, 2 ** 24, 15)) / 2 ** 24);
  return coin(noise, code, t.keep, 14) ? first + uniform(noise, code, w, 12) : uniform(noise, code, cells, 13);
}

function tree({ column, t }: Ready, code: number, noise: Noise): Report {
  const levels: Level[] = column.levels, size = ({ bits, head, polynomial }: Level) => (polynomial ? 2 ** bits - 1 : 1) * 2 ** head;
  let drawn = uniform(noise, 0, 1024, 0), at = 0, first = 0;
  for (; drawn >= column.shares[at]; drawn -= column.shares[at++]) first += size(levels[at]);
  const { bits, head, favored, polynomial, basis } = levels[at], node = code >> (levels.length - bits);
  const inside = coin(noise, node, t[at], 0);
  const shift = inside ? uniform(noise, node, favored, 1) : favored + uniform(noise, node, 2 ** head - favored, 2);
  if (!polynomial) return String(first + (shift ^ node));
  const multiplier = uniform(noise, node, 2 ** bits - 1, 3);
  let element = basis!.reduce((sum, x, bit) => sum ^ ((node >> bit) & 1 ? x : 0), 0);
  for (let power = 0; power < multiplier; power++) element = (element << 1) ^ ((element << 1) >> bits ? polynomial : 0);
  return String(first + multiplier * 2 ** head + (shift ^ (element >> (bits - head))));
}

Object.assign(DRAWS, {
  subset: { needs: ["p", "ones"], good: ({ column, d }) => column.ones < d, draw: subset },
  set: { needs: ["p", "ones"], good: ({ column, d }) => column.input.most! > 0 && column.ones <= d, encode: places, draw: set },
  hash: { needs: ["keep", "buckets"], good: ({ column }) => column.prime > 0 || column.functions > 0, draw: hash },
  hadamard: { needs: ["agree", "columns"], draw: hadamard },
  one_bit: {
    needs: ["flip"],
    draw: ({ t }, code, noise) => code + uniform(noise, code, 2 ** 24, 15) >= 2 ** 24 !== !!coin(noise, code, t.flip, 14),
  },
  window: { needs: ["keep", "cells", "window"], draw: window },
  tree: {
    good: ({ column: { levels = [], shares = [] }, t, d }) => {
      levels.forEach((level: Level, i: number) => (t[i] = threshold(level.p)));
      return 2 ** levels.length >= d && shares.length === levels.length && shares.reduce((a: number, b: number) => a + b, 0) === 1024;
    },
    draw: tree,
  },
} satisfies Record<string, Draw>);
