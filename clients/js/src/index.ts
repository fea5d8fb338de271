/** Local differential privacy on the device: docs/wire.md says what plans and reports are. */
import "./more.js";

export * from "./core.js";
export { Secret } from "./noise.js";
export { RefusedError, Sender, type SendOptions } from "./send.js";
