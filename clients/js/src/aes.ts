/**
 * AES-256 of single blocks (FIPS 197), as words of 32 bits, little-endian. WebCrypto has none: it takes a call for each, of
 * 10 us, as CBC and CTR chain and count blocks. It looks into tables: who measures this machine's caches may learn keys.
 */
export type Words = number[] | Uint32Array;

const S = new Uint8Array(256).fill(0x63), T = new Uint32Array(256);
for (let i = 0, power = 1, inverse = 1; i < 255; i++) {
  power ^= (power << 1) ^ (power & 128 ? 0x11b : 0); // times 3, and the other one divided by 3
  for (const shift of [1, 2, 4]) inverse = (inverse ^ (inverse << shift)) & 255;
  if (inverse & 128) inverse ^= 9;
  for (let turn = 0; turn < 5; turn++) S[power] ^= (inverse * 257) >> (8 - turn);
}
S.forEach((s, x) => {
  const double = (s << 1) ^ (s & 128 ? 0x11b : 0);
  T[x] = double | (s << 8) | (s << 16) | ((double ^ s) << 24);
});

/** Four bytes as a word; what is beyond the end is 0. */
export const little = (bytes: Uint8Array, at: number) =>
  bytes[at] | (bytes[at + 1] << 8) | (bytes[at + 2] << 16) | (bytes[at + 3] << 24);
const turned = (x: number, bits: number) => (x << bits) | (x >>> (32 - bits));
const substituted = (a: number, b: number, c: number, d: number) =>
  S[a & 255] | (S[(b >>> 8) & 255] << 8) | (S[(c >>> 16) & 255] << 16) | (S[d >>> 24] << 24);
const mixed = (a: number, b: number, c: number, d: number) =>
  T[a & 255] ^ turned(T[(b >>> 8) & 255], 8) ^ turned(T[(c >>> 16) & 255], 16) ^ turned(T[d >>> 24], 24);

/** The cipher under a key of 32 bytes. */
export function aes(key: Uint8Array): (block: Words) => Uint32Array {
  const round = Uint32Array.from({ length: 60 }, (_, i) => little(key, 4 * i));
  for (let i = 8; i < 60; i++) {
    let x = round[i - 1];
    if (i % 4 === 0) x = substituted(x, x, x, x);
    if (i % 8 === 0) x = turned(x, 24) ^ (1 << (i / 8 - 1));
    round[i] = round[i - 8] ^ x;
  }
  return ([a, b, c, d]) => {
    [a, b, c, d] = [a ^ round[0], b ^ round[1], c ^ round[2], d ^ round[3]];
    for (let i = 4; i < 56; i += 4) {
      const [w, x, y, z] = [mixed(a, b, c, d), mixed(b, c, d, a), mixed(c, d, a, b), mixed(d, a, b, c)];
      [a, b, c, d] = [w ^ round[i], x ^ round[i + 1], y ^ round[i + 2], z ^ round[i + 3]];
    }
    const last = [substituted(a, b, c, d), substituted(b, c, d, a), substituted(c, d, a, b), substituted(d, a, b, c)];
    return Uint32Array.from(last, (x, i) => x ^ round[56 + i]);
  };
}
