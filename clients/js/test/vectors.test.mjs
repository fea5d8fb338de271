// The vectors of tests/vectors: keyed reports are those of the Python package, and what must fail fails.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";
import * as ldp from "../dist/index.js";
import { given } from "./box.mjs";

const folder = new URL("../../../tests/vectors/", import.meta.url);
const load = (name) => JSON.parse(readFileSync(new URL(name, folder)));
const files = readdirSync(folder).filter((name) => name.endsWith(".json") && name !== "bad.json");
const bytes = (hex) => Uint8Array.from(hex.match(/../g), (x) => parseInt(x, 16));

test("keyed reports", async () => {
  let reports = 0;
  for (const name of files) {
    const v = load(name), secret = await ldp.Secret.of(bytes(v.secret));
    assert.equal(await secret.fingerprint(), v.secret_fingerprint);
    const [[column, { input }]] = Object.entries(v.plan.columns);
    for (let i = 0; i < v.ids.length; i++) {
      const id = { integer: BigInt, text: String, bytes }[v.id_kind](v.ids[i]);
      const value = given(input, v.values[i]);
      const client = new ldp.Client(v.plan, { storage: null, keyed: { secret, id, tag: v.tag ?? undefined } });
      assert.deepEqual(await client.report({ [column]: value }), { [column]: v.reports[i] }, `${name} ${i}`);
      reports++;
    }
  }
  assert.ok(reports >= 300, `${reports}`);
});

test("what must fail", async () => {
  const bad = load("bad.json");
  for (const { operation, why, plan, value } of bad) {
    if (operation === "plan") assert.throws(() => new ldp.Client(plan, { storage: null }), ldp.PlanError, why);
    if (operation === "perturb") {
      const asked = new ldp.Client(plan, { storage: null }).report({ os: given(plan.columns.os.input, value) });
      await assert.rejects(asked, (e) => e instanceof ldp.ValueError && !e.message.includes("maybe"), `${why} ${value}`);
    }
  }
});
