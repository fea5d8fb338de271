// A black box for audits: a compiled plan as argument, values of its first column as JSON in, reports out. Fresh noise.
import { readFileSync } from "node:fs";
import { Client } from "../dist/index.js";

const plan = JSON.parse(readFileSync(process.argv[2]));
const [[column, { input }]] = Object.entries(plan.columns);
const client = new Client(plan, { storage: null });
const out = [];
for (const value of JSON.parse(readFileSync(0))) {
  const given = input.kind === "int" && value !== null ? BigInt(value) : value;
  out.push((await client.report({ [column]: given }))[column]);
}
process.stdout.write(JSON.stringify(out));
