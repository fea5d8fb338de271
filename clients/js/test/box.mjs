// A black box for audits: a compiled plan and values of its first column in, reports out. Fresh noise. In node the plan's
// file is the argument, and values and reports are JSON on standard input and output; a page imports `box`.
import { Client } from "../dist/index.js";

/** A value of a vector as the client takes it: integers are text in JSON, or small. */
export const given = (input, value) =>
  Array.isArray(value) ? value.map((item) => given(input, item)) : input.kind === "int" && value !== null ? BigInt(value) : value;

export async function box(plan, values) {
  const [[column, { input }]] = Object.entries(plan.columns);
  const client = new Client(plan, { storage: null });
  return (await client.batch(values.map((value) => ({ [column]: given(input, value) })))).map((row) => row[column]);
}

if (globalThis.process?.argv[1]?.endsWith("box.mjs")) {
  const { readFileSync } = await import("node:fs");
  const [plan, values] = [process.argv[2], 0].map((file) => JSON.parse(readFileSync(file)));
  process.stdout.write(JSON.stringify(await box(plan, values)));
}
