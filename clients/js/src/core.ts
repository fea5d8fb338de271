/** The part for pages that ask few questions: randomized response and unary encoding. `index.ts` has all. */
export * from "./errors.js";
export { Client, type Keyed, type Options, type Row } from "./client.js";
export type { Column, Input, Report, Value } from "./draw.js";
export type { Id } from "./noise.js";
export type { Plan } from "./plan.js";
export { memory, type Storage } from "./storage.js";
