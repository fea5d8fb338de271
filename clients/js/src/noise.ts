import { aes, little, type Words } from "./aes.js";
import { NoiseError } from "./errors.js";

/** What noise depends on: a code below 2^32, or the places of a set, each below 2^16. */
export type Code = number | number[];
/** A block of four words of 32 bits for a code and a place, a number below 2^32: see docs/wire.md. */
export type Noise = (code: Code, place: number) => Uint32Array;
/** Whose report it is. */
export type Id = number | bigint | string | Uint8Array;

/** Whether this is text: half of a surrogate pair is none. */
export const isText = (x: unknown): x is string => typeof x === "string" && !/\p{Cs}/u.test(x);

const { crypto } = globalThis;
const pool = new Uint32Array(2048);
let used = pool.length;

/** Fresh noise: blocks from the operating system, each given out once. */
export const fresh: Noise = () => {
  if (used === pool.length) {
    crypto.getRandomValues(pool);
    used = 0;
  }
  const block = pool.slice(used, used + 4);
  pool.fill(0, used, (used += 4));
  return block;
};

const utf8 = /* @__PURE__ */ new TextEncoder();

/** A device's own secret, from which keyed noise is made: never one for several devices. */
export class Secret {
  private constructor(private readonly mac: CryptoKey) {}

  /** 16 to 1024 random bytes. */
  static async of(bytes: Uint8Array): Promise<Secret> {
    if (!(bytes instanceof Uint8Array) || bytes.length < 16 || bytes.length > 1024) {
      throw new NoiseError("a secret is 16 to 1024 random bytes: Secret.generate() makes some");
    }
    const hmac = { name: "HMAC", hash: "SHA-256" };
    return new Secret(await crypto.subtle.importKey("raw", bytes as BufferSource, hmac, false, ["sign"]));
  }

  /** 32 bytes to keep on the device, and nowhere else. */
  static generate = () => crypto.getRandomValues(new Uint8Array(32));

  async derive(...context: string[]): Promise<Uint8Array> {
    const all = context.flatMap((part) => {
      const bytes = utf8.encode(part), length = [24, 16, 8, 0].map((bits) => bytes.length >>> bits);
      return [0, 0, 0, 0, ...length, ...bytes];
    });
    return new Uint8Array(await crypto.subtle.sign("HMAC", this.mac, new Uint8Array(all)));
  }

  /** By which to compare secrets: 16 hexadecimal digits. */
  async fingerprint(): Promise<string> {
    return Array.from((await this.derive("fingerprint")).slice(0, 8), (x) => x.toString(16).padStart(2, "0")).join("");
  }

  /** The noise of one person, or device, for one column. */
  async noise(digest: string, column: string, id: Id, tag?: string | null): Promise<Noise> {
    let words: Words, seed: Words, last: Code | undefined;
    if (typeof id === "bigint" || Number.isSafeInteger(id)) {
      const n = BigInt.asUintN(64, BigInt(id as number));
      if (BigInt.asIntN(64, n) !== BigInt(id as number)) throw new NoiseError("an id has at most 64 bits: take its text");
      words = [Number(BigInt.asUintN(32, n)), Number(n >> 32n), 0, 0];
    } else {
      const data = isText(id) ? utf8.encode(id) : id;
      if (!(data instanceof Uint8Array)) throw new NoiseError("an id is an integer, text or bytes");
      const ofId = aes(await this.derive("id"));
      words = ofId([data.length, 0, 0, 0]);
      for (let at = 0; at < data.length; at += 16) words = ofId(words.map((x, i) => x ^ little(data, at + 4 * i)));
    }
    const name = [digest, ...(tag == null ? [] : [tag]), column];
    const ofPlace = aes(await this.derive("noise", ...name)), ofValue = aes(await this.derive("value", ...name));
    const also = (block: Words, low: number, high: number) => [block[0], block[1], block[2] ^ low, block[3] ^ high];
    return (code, place) => {
      if (code !== last) {
        seed = typeof code === "number" ? also(words, 0, code) : words;
        for (let at = 0; typeof code !== "number" && at < code.length; at += 4) {
          seed = ofValue(also(seed, code[at] | (code[at + 1] << 16), code[at + 2] | (code[at + 3] << 16)));
        }
        last = code;
      }
      return ofPlace(also(seed, place, 0));
    };
  }
}
