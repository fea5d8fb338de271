import { DRAWS, type Ready, type Report, type Value } from "./draw.js";
import { StorageError } from "./errors.js";
import { type Code, type Id, type Noise, type Secret, fresh, isText } from "./noise.js";
import { type Plan, encode, read, refused } from "./plan.js";
import { type Storage, stored, turns } from "./storage.js";

/** A record, or its report. */
export type Row = Record<string, unknown>;

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
  private readonly noises = new Map<Ready, Promise<Noise>>();
  private readonly inTurn = turns(); // two who ask at once get one report

  /** Throws `PlanError`. */
  constructor(readonly plan: Plan, private readonly options: Options) {
    this.columns = read(plan);
    if (!options || (!options.keyed && options.storage === undefined)) {
      throw new StorageError("say where reports are kept: storage: localStorage, memory() or null");
    }
  }

  /** The report of a record: a line for the server. All is checked before anything is drawn. Throws `ValueError`, `StorageError`. */
  async report(record: Row): Promise<Row> {
    // (of all else a column is undefined, which "other" and "none" take)
    if (Object(record) !== record || Array.isArray(record)) refused("record");
    const codes = this.columns.map((ready) => (DRAWS[ready.column.draw].encode ?? encode)(ready, record[ready.name] as Value));
    const kept = this.plan.keep.map((name) => {
      const given = record[name] as any, value = given?.toJSON?.() ?? given; // of dates their text
      // JSON.stringify would make null of NaN and infinity, and readers refuse all rows for one with half a pair or a list.
      const good = [true, false, null].includes(value) || Number.isFinite(value) || isText(value);
      if (!good || !RegExp(this.plan.patterns?.[name]!).test(JSON.stringify(value))) refused(name);
      return [name, value];
    });
    const reports = this.columns.map(async (ready, i) => [ready.name, await this.answer(ready, codes[i])]);
    return Object.fromEntries([...(await Promise.all(reports)), ...kept]);
  }

  /** The reports of many records. */
  batch = (records: Iterable<Row>): Promise<Row[]> => Promise.all(Array.from(records, (record) => this.report(record)));

  private async answer(ready: Ready, code: Code): Promise<Report> {
    const { keyed, storage } = this.options, { name, column } = ready;
    const draw = (noise: Noise) => DRAWS[column.draw].draw(ready, code, noise);
    if (keyed) {
      const noise = this.noises.get(ready) ?? keyed.secret.noise(column.digest, name, keyed.id, keyed.tag);
      this.noises.set(ready, noise);
      return draw(await noise);
    }
    if (!storage) return draw(fresh);
    const key = `ldp/${column.digest}/${name}/${code}`;
    return this.inTurn(() => stored<Report>(storage, key, (old) => old ?? draw(fresh)));
  }
}
