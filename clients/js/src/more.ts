import { again, bits, coin, type Column, type Draw, DRAWS, type Item, kept, packed, type Ready, type Report, uniform, type Value } from "./draw.js";
import type { Code, Noise } from "./noise.js";
import { counts, encode, refused, threshold } from "./plan.js";

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

const cells = ({ bits, head, polynomial }: Level) => (polynomial ? 2 ** bits - 1 : 1) * 2 ** head;

function tree({ column, t }: Ready, code: number, noise: Noise): Report {
  const levels: Level[] = column.levels;
  let drawn = uniform(noise, 0, 1024, 0), at = 0, first = 0;
  for (; drawn >= column.shares[at]; drawn -= column.shares[at++]) first += cells(levels[at]);
  const { bits, head, favored, polynomial, basis } = levels[at], node = code >> (levels.length - bits);
  const inside = coin(noise, node, t[at], 0);
  const shift = inside ? uniform(noise, node, favored, 1) : favored + uniform(noise, node, 2 ** head - favored, 2);
  if (!polynomial) return String(first + (shift ^ node));
  const multiplier = uniform(noise, node, 2 ** bits - 1, 3);
  let element = basis!.reduce((sum, x, bit) => sum ^ ((node >> bit) & 1 ? x : 0), 0);
  for (let power = 0; power < multiplier; power++) element = (element << 1) ^ ((element << 1) >> bits ? polynomial : 0);
  return String(first + multiplier * 2 ** head + (shift ^ (element >> (bits - head))));
}

/** Whether numbers have ends or edges, and what is missing is in between. */
function bounded({ column: { input: { low, high, edges = [low!, high!], missing = edges[0], whole = false } } }: Ready) {
  const from = edges[0], to = edges[edges.length - 1], scale = 2 ** 24 / (high! - low!);
  const good = low === undefined ? whole === false : typeof whole === "boolean" && scale > 0 && scale < Infinity;
  const inside = (x: any) => Number.isFinite(x) && x >= from && x <= to;
  const end = (x: number) => !whole || (Math.abs(x % 1) === 0.5 && Math.abs(x) < 2 ** 24 + 1);
  return good && inside(missing) && edges.every((x, i) => inside(x) && end(x) && (!i || x > edges[i - 1]));
}

function gridded({ name, column: { input: { low, high, edges, missing, unmatched, whole } } }: Ready, value: Value): number {
  const none = value === null || value === undefined || Number.isNaN(value), given = none ? missing : value;
  if (typeof given !== "number") return refused(name);
  const [from, to] = edges ? [edges[0], edges[edges.length - 1]] : [low!, high!];
  let x = unmatched === "clip" ? Math.min(Math.max(given, from), to) : given;
  if (!(x >= from && x <= to) || (whole && !none && unmatched === "error" && !Number.isInteger(x))) refused(name);
  if (whole) x = Math.min(Math.max(rint(x), from + 0.5), to - 0.5);
  return edges ? edges.slice(1, -1).filter((edge) => edge <= x).length : rint((x - from) * (2 ** 24 / (to - from)));
}

/** To the nearest integer, halves to the even one. */
const rint = (x: number) => (Math.abs(x % 1) === 0.5 ? 2 * Math.round(x / 2) : Math.round(x));

const power = (x: number, g: number, n: number) => counts(x, 2 ** 31) && x >= n && g ** Math.round(Math.log(x) / Math.log(g)) === x;

const fits = ({ cells, window: w, buckets = 1 }: Column) => cells <= 2 ** 16 && counts(buckets) && buckets - 1 + w <= cells;

function hashes({ column: { buckets: g, prime, functions, input }, d }: Ready): boolean {
  const n = d + (input.unmatched === "none" ? 1 : 0);
  if (!counts(g, 2 ** 16) || g < 2) return false;
  return functions === undefined ? counts(prime, 2 ** 24) && prime >= n : prime === undefined && power(functions, g, n);
}

function rises({ column: { levels, shares, input }, t, d }: Ready): boolean {
  const good = ({ bits, head, favored, p, polynomial, basis }: Level, i: number) =>
    (t[i] = threshold(p)) && bits === i + 1 && counts(head, bits) && counts(favored, 2 ** head - 1) &&
    (polynomial === undefined ? head === bits : (polynomial >> bits === 1 && basis!.length === bits && basis!.every((x) => counts(x, 2 ** bits - 1))));
  const total = shares.reduce((sum: number, share: number) => sum + (share === 0 || counts(share) ? share : NaN), 0);
  return shares.length === levels.length && levels.length <= 16 && 2 ** levels.length >= d && levels.every(good) && total === 1024;
}

Object.assign(DRAWS, {
  subset: { layout: "bits", chances: ["p"], needs: ["ones"], size: ({ d }) => d, draw: subset,
    good: ({ column: { ones, q }, t, d }) => (q !== undefined ? (t.q = threshold(q)) : d <= 18) && ones < d && d <= 2 ** 24 },
  set: { layout: "bits", chances: ["p"], needs: ["ones"], size: ({ column, d }) => d + column.input.most!, encode: places, draw: set,
    good: ({ column: { ones, input: { most, on_more, kind } }, d }) =>
      counts(most, 2 ** 16 - d) && kind !== "date" && ["error", "first"].includes(on_more!) && ones <= Math.min(d, (d + most! + 1) / 2) },
  hash: { layout: "word", chances: ["keep"], none: true, good: hashes, draw: hash,
    size: ({ column }) => String(BigInt(column.buckets) << 48n) },
  hadamard: { layout: "word", chances: ["agree"], none: true, size: ({ column }) => String(column.columns), draw: hadamard,
    good: ({ column, d }) => power(column.columns, 2, d + 1) },
  one_bit: { layout: "flag", chances: ["flip"], takes: ["ends"], good: bounded, encode: gridded,
    draw: ({ t }, code, noise) => code + uniform(noise, code, 2 ** 24, 15) >= 2 ** 24 !== !!coin(noise, code, t.flip, 14) },
  window: { layout: "symbol", chances: ["keep"], needs: ["cells", "window"], takes: ["ends"], size: ({ column }) => column.cells,
    good: (ready) => bounded(ready) && fits(ready.column), encode: gridded, draw: window },
  tree: { layout: "word", takes: ["labels", "edges"], good: (ready) => ready.d > 1 && rises(ready) && (!ready.column.input.edges || bounded(ready)),
    size: ({ column }) => String(column.levels.reduce((sum: number, level: Level) => sum + cells(level), 0)),
    encode: (ready, value) => (ready.column.input.edges ? gridded(ready, value) : encode(ready, value)), draw: tree },
} satisfies Record<string, Draw>);
