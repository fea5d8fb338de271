import { StorageError } from "./errors.js";

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

/**
 * What is stored under a key, as JSON, after a change; whoever wrote it. Tabs wait for each other where a browser has
 * Web Locks. Throws `StorageError`.
 */
export async function stored<T>(storage: Storage, key: string, change: (old?: T) => T): Promise<T> {
  const turn = async () => {
    const text = await storage.getItem(key), old = text == null ? undefined : JSON.parse(text), made = change(old);
    if (made === old) return old;
    await storage.setItem(key, JSON.stringify(made));
    return JSON.parse((await storage.getItem(key)) || ""); // (no text is an error)
  };
  try {
    return await (globalThis.navigator?.locks?.request(key, turn) ?? turn());
  } catch {
    throw new StorageError("the storage fails: what is not stored is not given out");
  }
}

/** Runs jobs one after the other. */
export function turns(): <T>(job: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve();
  return (job) => {
    const turn = last.then(job);
    last = turn.catch(() => undefined);
    return turn;
  };
}
