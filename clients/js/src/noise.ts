import { NoiseError } from "./errors.js";

/** What noise depends on: a code below 2^32, or the places of a set, each below 2^16. */
export type Code = number | number[];
/** A block of 128 bits for a code and a place, a number below 2^32: see docs/wire.md. */
export type Noise = (code: Code, place: number) => Uint8Array | Promise<Uint8Array>;
/** Whose report it is. */
export type Id = number | bigint | string | Uint8Array;

const { crypto } = globalThis;
const pool = new Uint8Array(8192);
let used = pool.length;

/** Fresh noise: blocks from the operating system, each given out once. */
export const fresh: Noise = () => {
  if (used === pool.length) {
    crypto.getRandomValues(pool);
    used = 0;
  }
  const block = pool.slice(used, used + 16);
  pool.fill(0, used, (used += 16));
  return block;
};

const utf8 = new TextEncoder();
const ZERO = new Uint8Array(16);

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
      const bytes = [...utf8.encode(part)], length = new Uint8Array(8);
      new DataView(length.buffer).setUint32(4, bytes.length);
      return [...length, ...bytes];
    });
    return new Uint8Array(await crypto.subtle.sign("HMAC", this.mac, new Uint8Array(all)));
  }

  /** By which to compare secrets: 16 hexadecimal digits. */
  async fingerprint(): Promise<string> {
    return Array.from((await this.derive("fingerprint")).slice(0, 8), (x) => x.toString(16).padStart(2, "0")).join("");
  }

  private async aes(...context: string[]) {
    const key = await crypto.subtle.importKey("raw", (await this.derive(...context)) as BufferSource, "AES-CBC", false, ["encrypt"]);
    return async (blocks: Uint8Array) => {
      const out = await crypto.subtle.encrypt({ name: "AES-CBC", iv: ZERO }, key, blocks as BufferSource);
      return new Uint8Array(out, blocks.length - 16, 16); // of whole blocks the last one; then comes padding
    };
  }

  /** The noise of one person, or device, for one column. */
  async noise(digest: string, column: string, id: Id, tag?: string | null): Promise<Noise> {
    const words = new Uint8Array(16);
    if (typeof id === "bigint" || Number.isSafeInteger(id)) {
      const n = BigInt(id as number);
      if (BigInt.asIntN(64, n) !== n) throw new NoiseError("an id has at most 64 bits: take its text");
      new DataView(words.buffer).setBigInt64(0, n, true);
    } else {
      const data = typeof id === "string" ? utf8.encode(id) : id;
      if (!(data instanceof Uint8Array)) throw new NoiseError("an id is an integer, text or bytes");
      const blocks = new Uint8Array(16 + Math.ceil(data.length / 16) * 16);
      new DataView(blocks.buffer).setUint32(0, data.length, true);
      blocks.set(data, 16);
      words.set(await (await this.aes("id"))(blocks));
    }
    const name = [digest, ...(tag == null ? [] : [tag]), column];
    const encrypt = await this.aes("noise", ...name), ofValue = await this.aes("value", ...name);
    let last: Code | undefined, seed: Uint8Array;
    return async (code, place) => {
      if (code !== last) {
        const parts = typeof code === "number" ? [0, 0, code & 0xffff, code >>> 16] : code;
        const blocks = new Uint8Array(16 * Math.ceil(parts.length / 4)), view = new DataView(blocks.buffer);
        parts.forEach((part, i) => view.setUint16(16 * (i >> 2) + 8 + 2 * (i & 3), part, true));
        words.forEach((byte, i) => (blocks[i] ^= byte));
        [seed, last] = [parts === code ? await ofValue(blocks) : blocks, code];
      }
      const block = seed.slice(), view = new DataView(block.buffer);
      view.setUint32(8, view.getUint32(8, true) ^ place, true);
      return encrypt(block);
    };
  }
}
