import { DRAWS, type Report } from "./draw.js";
import { StorageError, ValueError } from "./errors.js";
import { type Code, type Id, type Noise, type Secret, fresh } from "./noise.js";
import { type Plan, type Ready, type Value, encode, read } from "./plan.js";

export type Row = Record<string, unknown>;
/** Texts by name, as `localStorage` or anything that keeps them: answers may be promises. */
export interface Storage {
  getItem(key: string): string | null | undefined | Promise<string | null | undefined>;
  setItem(key: string, text: string): unknown;
}

/** A storage that lasts as long as the page: for tests, and where nothing else is. */
export const memory = (): Storage => {
  const texts = new Map<string, string>();
  return { getItem: (key) => texts.get(key), setItem: (key, text) => texts.set(key, text) };
};

/** The device's own secret, and whose records these are on it. */
export type Keyed = { secret: Secret; id: Id; tag?: string };

export interface Options {
  /** Where reports are kept, so that asking again spends nothing; `null`: nowhere, and each report spends epsilon again. */
  storage: Storage | null;
  /** Noise from the device's own secret in place of fresh noise and storage. */
  keyed?: Keyed;
}

/** Makes reports under a compiled plan. */
export class Client {
  private readonly columns: Ready[];
  private readonly making = new Map<string, Promise<Report>>();
  private readonly noises = new Map<string, Promise<Noise>>();

  /** Throws `PlanError`. */
  constructor(readonly plan: Plan, private readonly options: Options) {
    this.columns = read(plan);
    if (!options || (!options.keyed && options.storage === undefined)) {
      throw new StorageError("say where reports are kept: storage: localStorage, memory() or null");
    }
  }

  /** The report of a record: a line for the server. All is checked before anything is drawn. Throws `ValueError`, `StorageError`. */
  async report(record: Record<string, Value | unknown>): Promise<Row> {
    const codes = this.columns.map((ready) => (DRAWS[ready.column.draw].encode ?? encode)(ready, record[ready.name] as Value));
    const kept = this.plan.keep.map((name): [string, unknown] => {
      if (!Object.hasOwn(record, name)) throw new ValueError(`column ${name}: the record lacks it`);
      return [name, record[name]];
    });
    const reports = await Promise.all(this.columns.map((ready, i) => this.answer(ready, codes[i])));
    return Object.fromEntries([...this.columns.map((ready, i) => [ready.name, reports[i]]), ...kept]);
  }

  /** The reports of many records. */
  async batch(records: Iterable<Record<string, Value | unknown>>): Promise<Row[]> {
    const rows: Row[] = [];
    for (const record of records) rows.push(await this.report(record));
    return rows;
  }

  private async answer(ready: Ready, code: Code): Promise<Report> {
    const { keyed, storage } = this.options, { name, column } = ready, { draw } = DRAWS[column.draw];
    if (keyed) {
      const noise = this.noises.get(name) ?? keyed.secret.noise(column.digest, name, keyed.id, keyed.tag);
      this.noises.set(name, noise);
      return draw(ready, code, await noise);
    }
    if (!storage) return draw(ready, code, fresh);
    const key = `ldp/${column.digest}/${name}/${code}`;
    let made = this.making.get(key); // two who ask at once get one report
    if (!made) this.making.set(key, (made = stored(storage, key, () => draw(ready, code, fresh)).finally(() => this.making.delete(key))));
    return made;
  }
}

async function stored(storage: Storage, key: string, make: () => Promise<Report>): Promise<Report> {
  try {
    let text = await storage.getItem(key);
    if (text == null) {
      await storage.setItem(key, JSON.stringify(await make()));
      text = await storage.getItem(key); // what is there now is the report, whoever wrote it
    }
    if (text == null) throw text;
    return JSON.parse(text);
  } catch {
    throw new StorageError("a report could not be stored, and is not given out");
  }
}

