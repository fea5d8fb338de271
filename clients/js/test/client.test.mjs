// Storing, sending, secrets, sizes and speed.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import { test } from "node:test";
import * as ldp from "../dist/index.js";
import { given } from "./box.mjs";

const folder = new URL("../../../tests/vectors/", import.meta.url);
const load = (name) => JSON.parse(readFileSync(new URL(name, folder)));
const vectors = readdirSync(folder).filter((name) => name.endsWith(".json") && name !== "bad.json");
const { plan } = load("unary_encoding_8.json");
const value = () => ({ os: "w7" });

test("asking again gives the same report, also at once and after a restart", async () => {
  const storage = ldp.memory();
  const client = new ldp.Client(plan, { storage });
  const [a, b] = await Promise.all([client.report(value()), client.report(value())]);
  const c = await new ldp.Client(plan, { storage }).report(value());
  assert.deepEqual([b, c], [a, a]);
  const [d, e] = await new ldp.Client(plan, { storage: null }).batch([value(), value()]);
  assert.notDeepEqual(d, e); // of 130 bits
  const sets = new ldp.Client(load("privset_33.json").plan, { storage });
  const [f, g] = await sets.batch([{ os: ["w1", "w2"] }, { os: ["w2", "w1", "w2"] }]); // one set
  assert.deepEqual(f, g);
});

test("a report that cannot be stored is not given out", async () => {
  const full = { getItem: () => null, setItem: () => { throw new Error("QuotaExceededError"); } };
  const silent = { getItem: () => null, setItem: () => undefined };
  const broken = { getItem: () => "{", setItem: () => undefined };
  for (const storage of [full, silent, broken]) {
    await assert.rejects(new ldp.Client(plan, { storage }).report(value()), ldp.StorageError);
  }
  assert.throws(() => new ldp.Client(plan, {}), ldp.StorageError);
});

test("fresh noise keeps the value as often as the threshold says", async () => {
  const { plan } = load("randomized_response_0.json");
  const client = new ldp.Client(plan, { storage: null }), n = 20000, p = Number(plan.columns.os.yes) / 2 ** 64;
  let same = 0;
  for (let i = 0; i < n; i++) same += (await client.report({ os: i % 2 === 0 })).os === (i % 2 === 0);
  assert.ok(Math.abs(same - n * p) < 6 * Math.sqrt(n * p * (1 - p)), `${same}`); // wrong once in 10^9 runs
});

test("kept columns pass, and a record that lacks one is refused", async () => {
  const client = new ldp.Client({ ...plan, keep: ["day"] }, { storage: null });
  assert.equal((await client.report({ ...value(), day: "2026-11-24", name: "Ann" })).day, "2026-11-24");
  assert.equal("name" in (await client.report({ ...value(), day: 1, name: "Ann" })), false);
  await assert.rejects(client.report(value()), ldp.ValueError);
  for (const day of [null, true, 0.5]) assert.equal((await client.report({ ...value(), day })).day, day);
  assert.equal((await client.report({ ...value(), day: new Date(0) })).day, "1970-01-01T00:00:00.000Z");
  // They were queued. The first are not JSON, others came to the server as null, or cost all rows of the message.
  const nested = [[NaN], { a: [NaN] }, {}, [], [1], new Map()], halves = ["\ud800", "a\udc00", "\udc00\ud800"];
  for (const day of [1n, undefined, Symbol.iterator, value, NaN, -Infinity, new Date(""), ...nested, ...halves]) {
    await assert.rejects(client.report({ ...value(), day }), ldp.ValueError);
  }
});

test("kept values are of the kind that the plan says", async () => {
  const patterns = { day: '^(null|"\\d{4}-\\d\\d-\\d\\d")$', n: "^(null|\\d+)$", toString: "" }, keep = Object.keys(patterns);
  const client = new ldp.Client({ ...plan, keep, patterns }, { storage: null }), good = { ...value(), day: "2026-11-24", n: 7, toString: "" };
  const other = new ldp.Client(load("unary_encoding_7.json").plan, { storage: null });
  for (const none of [null, undefined, 5, "os", true, [{}]]) await assert.rejects(other.report(none), ldp.ValueError);
  for (const one of [{}, { day: null }, { n: 0, toString: 1 }]) await client.report({ ...good, ...one });
  for (const one of [{ day: "abc" }, { day: 7 }, { n: "7" }, { n: 0.5 }, { n: NaN }]) await assert.rejects(client.report({ ...good, ...one }), ldp.ValueError);
  for (const day of ["(", "[z-a]"]) assert.throws(() => new ldp.Client({ ...plan, keep, patterns: { day } }, { storage: null }), ldp.PlanError);
});

test("half of a surrogate pair is no text, as in Python", async () => {
  const secret = await ldp.Secret.of(ldp.Secret.generate());
  for (const unmatched of ["error", "other", "none"]) {
    const { input, report, ...rest } = plan.columns.os, d = input.labels.length + (unmatched === "other");
    const os = { ...rest, input: { ...input, unmatched }, report: { ...report, length: d } };
    const client = new ldp.Client({ ...plan, columns: { os } }, { storage: null });
    await client.report({ os: "w7" });
    if (unmatched !== "error") await client.report({ os: "\ud83d\ude00" });
    for (const os of ["\ud800", "a\udc00"]) await assert.rejects(client.report({ os }), ldp.ValueError, unmatched);
  }
  const keyed = (id) => new ldp.Client(plan, { storage: null, keyed: { secret, id } }).report(value());
  assert.deepEqual(await keyed("\ud83d\ude00"), await keyed("\ud83d\ude00"));
  for (const id of ["\ud800", "\udc00"]) await assert.rejects(keyed(id), ldp.NoiseError); // which had one noise
});

test("secrets and ids", async () => {
  for (const size of [0, 15, 1025]) await assert.rejects(ldp.Secret.of(new Uint8Array(size)), ldp.NoiseError);
  const secret = await ldp.Secret.of(ldp.Secret.generate());
  for (const id of [1.5, null, 2n ** 63n]) {
    await assert.rejects(new ldp.Client(plan, { storage: null, keyed: { secret, id } }).report(value()), ldp.NoiseError);
  }
});

test("keyed sets that are asked for at once do not share noise", async () => {
  const secret = await ldp.Secret.of(ldp.Secret.generate()), { plan } = load("privset_33.json");
  const lists = [["w1"], ["w2", "w3"], ["w1", "w4"], []].map((os) => ({ os }));
  const client = () => new ldp.Client(plan, { storage: null, keyed: { secret, id: 7 } });
  const alone = await Promise.all(lists.map((list) => client().report(list))), shared = client();
  assert.deepEqual(await Promise.all(lists.map((list) => shared.report(list))), alone);
  assert.equal(new Set(alone.map(({ os }) => os)).size, 4); // of C(310, 20) reports
});

const sender = (fetch, storage = ldp.memory()) =>
  new ldp.Sender({ url: "http://127.0.0.1/reports", fingerprint: "f", storage, fetch, wait: 1, most: 2 });

test("what no server took waits, in its order, with the same key", async () => {
  const storage = ldp.memory(), seen = [];
  let up = false;
  const fetch = async (url, { body, headers }) => {
    seen.push([headers["idempotency-key"], body]);
    if (!up) throw new TypeError("offline");
    return { status: 204 };
  };
  assert.equal(await sender(fetch, storage).send([{ a: 1 }, { a: 2 }, { a: 3 }]), 3);
  assert.equal(seen.length, 4);
  up = true;
  assert.equal(await sender(fetch, storage).flush(), 0);
  assert.deepEqual(seen.slice(4).map(([, body]) => body), ['{"a":1}\n{"a":2}\n', '{"a":3}\n']);
  assert.equal(new Set(seen.map(([key]) => key)).size, 2);
  assert.equal(await sender(fetch, storage).flush(), 0);
});

test("a request has no more bytes than a server takes", async () => {
  const sent = [], rows = [..."abcdef"].map((a) => ({ a: a.repeat(400_000) }));
  const fetch = async (_, { body }) => (sent.push(body.trim().split("\n").length), { status: 200 });
  const options = { url: "http://127.0.0.1/reports", fingerprint: "f", storage: ldp.memory(), fetch };
  assert.equal(await new ldp.Sender(options).send(rows), 0);
  assert.equal(await new ldp.Sender({ ...options, mostBytes: 1000 }).send(rows.slice(4)), 0); // each too long by itself
  assert.deepEqual(sent, [2, 2, 2, 1, 1]);
});

test("what is sent elsewhere is not taken there, and waits", async (t) => {
  const server = createServer(({ url }, answer) => answer.writeHead(url === "/reports" ? 302 : 200, { location: "/login" }).end());
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  t.after(() => (server.close(), server.closeAllConnections()));
  const url = `http://127.0.0.1:${server.address().port}/reports`;
  const redirected = new ldp.Sender({ url, fingerprint: "f", storage: ldp.memory(), tries: 2, wait: 1 });
  assert.equal(await redirected.send([{ a: 1 }]), 1);
});

test("a server that never answers holds nothing up", { timeout: 5_000 }, async (t) => {
  const fetch = (url, { signal }) => new Promise((_, reject) => signal?.addEventListener("abort", () => reject(signal.reason)));
  const waits = new ldp.Sender({ url: "http://127.0.0.1/reports", fingerprint: "f", storage: ldp.memory(), fetch, tries: 2, wait: 1, timeout: 5 });
  const awake = setInterval(() => 0, 100); // the timer of a signal keeps no process alive
  t.after(() => clearInterval(awake));
  assert.equal(await waits.send([{ a: 1 }]), 1);
});

test("two tabs that send the same queue lose nothing", async () => {
  const storage = ldp.memory(), taken = [], answers = [];
  let up = false;
  const fetch = (url, { body }) => new Promise((resolve, reject) => {
    if (!up) return reject(new TypeError("offline"));
    answers.push(() => (taken.push(body), resolve({ status: 200 })));
  });
  const tabs = [sender(fetch, storage), sender(fetch, storage)];
  await tabs[0].send([{ a: 1 }, { a: 2 }, { a: 3 }, { a: 4 }, { a: 5 }]);
  up = true;
  const flushes = tabs.map((tab) => tab.flush());
  const later = () => new Promise((done) => setTimeout(done, 5));
  await later();
  assert.equal(answers.length, 2); // both have sent the first batch
  up = false;
  for (const answer of answers.splice(0)) {
    answer();
    await later();
  }
  assert.deepEqual(await Promise.all(flushes), [3, 3]);
  up = true;
  const last = tabs[0].flush();
  for (let k = 0; k < 2; k++) {
    while (!answers.length) await later();
    answers.shift()();
  }
  assert.equal(await last, 0);
  assert.deepEqual([...new Set(taken)], ['{"a":1}\n{"a":2}\n', '{"a":3}\n{"a":4}\n', '{"a":5}\n']);
});

test("tabs that ask in the same instant get one report, where there are Web Locks", async () => {
  const texts = ldp.memory(), slow = (job) => new Promise((done) => setTimeout(() => done(job()), 2));
  const storage = { getItem: (key) => slow(() => texts.getItem(key)), setItem: (key, text) => slow(() => texts.setItem(key, text)) };
  const last = new Map(); // a stand-in for the browser's: a name is held by one at a time
  const request = (name, job) => {
    const turn = (last.get(name) ?? Promise.resolve()).then(job);
    last.set(name, turn.catch(() => undefined));
    return turn;
  };
  const before = Object.getOwnPropertyDescriptor(globalThis, "navigator");
  Object.defineProperty(globalThis, "navigator", { value: { locks: { request } }, configurable: true });
  try {
    const { plan, values } = load("unary_encoding_5.json"), [[column, { input }]] = Object.entries(plan.columns);
    const tabs = Array.from({ length: 8 }, () => new ldp.Client(plan, { storage }));
    const reports = await Promise.all(tabs.map((tab) => tab.report({ [column]: given(input, values[0]) })));
    assert.equal(new Set(reports.map((report) => JSON.stringify(report))).size, 1);
    const sent = [], fetch = async (url, { body }) => (sent.push(body), { status: 200 });
    await Promise.all([1, 2, 3].map((a) => sender(fetch, storage).send([{ a }])));
    assert.deepEqual([...new Set(sent)].sort(), ['{"a":1}\n', '{"a":2}\n', '{"a":3}\n']); // no tab wrote over another's
  } finally {
    delete globalThis.navigator;
    if (before) Object.defineProperty(globalThis, "navigator", before);
  }
});

test("whoever counts is told that noise is keyed", async () => {
  const kinds = [], fetch = async (url, { headers }) => (kinds.push(headers["content-type"]), { status: 200 });
  for (const keyed of [undefined, true]) {
    const options = { url: "http://127.0.0.1/reports", fingerprint: "f", storage: ldp.memory(), fetch, keyed };
    await new ldp.Sender(options).send([{ a: 1 }]);
  }
  const kind = "application/vnd.ldp.reports+ndjson; version=1; plan=f";
  assert.deepEqual(kinds, [kind, `${kind}; noise=keyed`]);
});

test("servers that are busy are asked again, those that refuse are not", async () => {
  let asked = 0;
  assert.equal(await sender(async () => ({ status: [503, 429, 200][asked++] })).send([{ a: 1 }]), 0);
  assert.equal(asked, 3);
  const refusing = sender(async () => (asked++, { status: 400 }));
  await assert.rejects(refusing.send([{ a: 1 }]), (e) => e instanceof ldp.RefusedError && e.status === 400);
  assert.deepEqual([asked, await refusing.flush()], [4, 0]);
  const storage = ldp.memory(), old = sender(async () => ({ status: 401 }), storage); // whose token is one of yesterday
  await assert.rejects(old.send([{ a: 1 }]), (e) => e instanceof ldp.RefusedError && e.status === 401);
  assert.equal(await sender(async () => ({ status: 503 }), storage).flush(), 1); // it was dropped
  assert.equal(await sender(async () => ({ status: 200 }), storage).flush(), 0);
  await assert.rejects(sender(fetch, { getItem: () => "{", setItem: () => 0 }).flush(), ldp.StorageError);
});

test("a report takes less than a millisecond", async () => {
  const secret = await ldp.Secret.of(ldp.Secret.generate());
  for (const name of vectors) {
    const { plan, values } = load(name);
    const [[column, { input }]] = Object.entries(plan.columns), record = { [column]: given(input, values[0]) };
    const times = [];
    for (const keyed of [false, true]) {
      const runs = [], cpu = () => (({ user, system }) => (user + system) / 1000)(process.cpuUsage());
      for (let id = 0; id < 25; id++) {
        const client = new ldp.Client(plan, { storage: null, keyed: keyed ? { secret, id } : undefined });
        await client.report(record);
        const start = cpu(); // of all threads: on a busy machine the clock tells how busy it is
        for (let i = 0; i < 10; i++) await client.report(record);
        runs.push((cpu() - start) / 10);
      }
      times.push(runs.sort((a, b) => a - b)[12]);
      assert.ok(times.at(-1) < 1, `${name}: ${times.at(-1)} ms`);
    }
    console.log(name.padEnd(30), times.map((ms) => `${(1000 * ms).toFixed(0)} us`).join(" fresh, "), "keyed");
  }
});

const esbuild = fileURLToPath(new URL("../node_modules/esbuild-wasm/bin/esbuild", import.meta.url));
test("the core is below 6,000 bytes minified, and the file for pages has all", { skip: !existsSync(esbuild) && "no esbuild: npm install" }, async () => {
  const entry = (name) => fileURLToPath(new URL(`../dist/${name}.js`, import.meta.url));
  const size = (name) => execFileSync("node", [esbuild, entry(name), "--bundle", "--minify", "--format=esm"]).length;
  console.log(`core: ${size("core")} bytes minified, all: ${size("index")}`);
  assert.ok(size("core") < 6000);
  execFileSync("npm", ["run", "minify"], { cwd: new URL("..", import.meta.url), stdio: "pipe" });
  const { Client } = await import("../dist/ldp.min.js");
  for (const name of vectors) new Client(load(name).plan, { storage: null }); // which refuses a draw that it does not have
});
