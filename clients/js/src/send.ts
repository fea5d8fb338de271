import type { Row } from "./client.js";
import { LdpError } from "./errors.js";
import { type Storage, stored, turns } from "./storage.js";

export interface SendOptions {
  url: string;
  /** Of the plan: the server refuses reports of another one. */
  fingerprint: string;
  /** Where reports wait until a server has taken them. */
  storage: Storage;
  /** Whether noise is keyed, or a person may send a stored report again: whoever counts must know it. */
  keyed?: boolean;
  /** How often a request is tried before its reports wait for the next `flush`. */
  tries?: number;
  /** Milliseconds before the second try; each later one waits twice as long, and a random part less. */
  wait?: number;
  /** Milliseconds after which a try without an answer has failed. */
  timeout?: number;
  /** Reports in one request, and bytes: a server takes 1 MiB if it is not told otherwise. */
  most?: number; mostBytes?: number;
  headers?: Record<string, string>; fetch?: typeof fetch;
}

/** The server refuses the reports: sending them again does not help. */
export class RefusedError extends LdpError {
  constructor(message: string, readonly status: number) { super(message); }
}

type Batch = { id: string; rows: Row[] };

/** Sends reports as NDJSON, and keeps those in a queue that no server has taken yet. */
export class Sender {
  private readonly inTurn = turns();

  constructor(private readonly options: SendOptions) {}

  /** Queue reports, and try to send all that wait. Resolves to how many still wait; throws as `flush`. */
  async send(rows: Row[]): Promise<number> {
    const { most = 500, mostBytes = 1_000_000 } = this.options, batches: Batch[] = [];
    let batch: Row[] = [], size = 0;
    for (const row of rows) {
      const bytes = new TextEncoder().encode(JSON.stringify(row)).length + 1;
      if (!batch.length || batch.length === most || size + bytes > mostBytes) {
        batches.push({ id: crypto.randomUUID(), rows: batch = [] });
        size = 0;
      }
      batch.push(row);
      size += bytes;
    }
    await this.inTurn(() => this.queue((old = []) => [...old, ...batches]));
    return this.flush();
  }

  /**
   * Try to send all that wait, in their order; resolves to how many reports still wait. Throws `RefusedError` where the
   * server refuses a request (4xx): its reports are dropped, for they would be refused again, but wait for another token (401).
   */
  flush(): Promise<number> {
    return this.inTurn(async () => {
      for (let queue = await this.queue(); queue?.length; queue = await this.queue()) {
        const sent = queue[0], status = await this.post(sent);
        if (!status) return queue.reduce((sum, { rows }) => sum + rows.length, 0);
        if (status !== 401) await this.queue((old) => old?.filter(({ id }) => id !== sent.id)); // another tab may have taken it away
        if (status >= 300) throw new RefusedError(`the server refuses the reports: status ${status}`, status);
      }
      return 0;
    });
  }

  /** The status that settles a batch, or 0 if none came. */
  private async post({ id, rows }: Batch): Promise<number> {
    const { url, fingerprint, keyed, headers, tries = 4, wait = 500, timeout = 30_000, fetch = globalThis.fetch } = this.options;
    const body = rows.map((row) => JSON.stringify(row) + "\n").join("");
    const type = `application/vnd.ldp.reports+ndjson; version=1; plan=${fingerprint}${keyed ? "; noise=keyed" : ""}`;
    for (let k = 0; k < tries; k++) {
      if (k) await new Promise((done) => setTimeout(done, wait * 2 ** (k - 1) * (0.5 + Math.random() / 2)));
      try {
        const all = { "content-type": type, "idempotency-key": id, ...headers }, signal = AbortSignal.timeout(timeout);
        // (of a redirect fetch would make a GET without the rows, and a page to log in answers 200)
        const { status } = await fetch(url, { method: "POST", headers: all, body, signal, redirect: "error" });
        if (status < 300 || (status >= 400 && status < 500 && status !== 408 && status !== 429)) return status;
      } catch {} // no network: the next try
    }
    return 0;
  }

  private queue(change = (old?: Batch[]) => old): Promise<Batch[] | undefined> {
    const { storage, fingerprint } = this.options;
    return stored<Batch[] | undefined>(storage, `ldp/queue/${fingerprint}`, change);
  }
}
