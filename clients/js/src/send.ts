import type { Row, Storage } from "./client.js";
import { RefusedError, StorageError } from "./errors.js";

export interface SendOptions {
  url: string;
  /** Of the plan: the server refuses reports of another one. */
  fingerprint: string;
  /** Where reports wait until a server has taken them. */
  storage: Storage;
  headers?: Record<string, string>;
  /** How often a request is tried before its reports wait for the next `flush`. */
  tries?: number;
  /** Milliseconds before the second try; each later one waits twice as long, and a random part less. */
  wait?: number;
  /** Reports in one request. */
  most?: number;
  fetch?: typeof fetch;
}

type Batch = { id: string; rows: Row[] };

/** Sends reports as NDJSON, and keeps those in a queue that no server has taken yet. */
export class Sender {
  private last: Promise<unknown> = Promise.resolve();
  private readonly key: string;

  constructor(private readonly options: SendOptions) {
    this.key = `ldp/queue/${options.fingerprint}`;
  }

  /** Queue reports, and try to send all that wait. Resolves to how many still wait; throws as `flush`. */
  async send(rows: Row[]): Promise<number> {
    const most = this.options.most ?? 500;
    await this.inTurn(async () => {
      const queue = await this.queue();
      for (let at = 0; at < rows.length; at += most) queue.push({ id: crypto.randomUUID(), rows: rows.slice(at, at + most) });
      await this.keep(queue);
    });
    return this.flush();
  }

  /**
   * Try to send all that wait, in their order; resolves to how many reports still wait. Throws `RefusedError` where the
   * server refuses a request (4xx): its reports are dropped, for they would be refused again.
   */
  flush(): Promise<number> {
    return this.inTurn(async () => {
      for (let queue = await this.queue(); ; ) {
        if (!queue.length) return 0;
        const status = await this.post(queue[0]);
        if (!status) return queue.reduce((sum, batch) => sum + batch.rows.length, 0);
        await this.keep((queue = queue.slice(1)));
        if (status >= 300) throw new RefusedError(`the server refuses the reports: status ${status}`, status);
      }
    });
  }

  /** The status that settles a batch, or 0 if none came. */
  private async post({ id, rows }: Batch): Promise<number> {
    const { url, fingerprint, headers, tries = 4, wait = 500, fetch = globalThis.fetch } = this.options;
    const body = rows.map((row) => JSON.stringify(row) + "\n").join("");
    const type = `application/vnd.ldp.reports+ndjson; version=1; plan=${fingerprint}`;
    for (let k = 0; k < tries; k++) {
      if (k) await new Promise((done) => setTimeout(done, wait * 2 ** (k - 1) * (0.5 + Math.random() / 2)));
      try {
        const all = { "content-type": type, "idempotency-key": id, ...headers };
        const { status } = await fetch(url, { method: "POST", headers: all, body });
        if (status < 300 || (status >= 400 && status < 500 && status !== 408 && status !== 429)) return status;
      } catch {
        // no network: the next try
      }
    }
    return 0;
  }

  private queue = () => stored<Batch[]>(async () => JSON.parse((await this.options.storage.getItem(this.key)) ?? "[]"));
  private keep = (queue: Batch[]) => stored(async () => this.options.storage.setItem(this.key, JSON.stringify(queue)));

  private inTurn<T>(job: () => Promise<T>): Promise<T> {
    const turn = this.last.then(job, job);
    this.last = turn.catch(() => undefined);
    return turn;
  }
}

const stored = <T>(job: () => Promise<T>) =>
  job().catch((): never => {
    throw new StorageError("the queue cannot be read or stored");
  });
