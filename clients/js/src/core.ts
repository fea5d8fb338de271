/** The part for pages that ask few questions: randomized response and unary encoding. `index.ts` has all. */
export * from "./errors.js";
export { Client, type Keyed, memory, type Options, type Row, type Storage } from "./client.js";
export type { Report } from "./draw.js";
export type { Id } from "./noise.js";
export type { Column, Input, Plan, Value } from "./plan.js";
