/** What all errors of this package are. None holds a value of a record. */
export class LdpError extends Error {
  override name = this.constructor.name;
}
/** The compiled plan is not one, or of another version: get it again from the server. */
export class PlanError extends LdpError {}
/** A value is not declared in the plan, or of another kind. */
export class ValueError extends LdpError {}
/** A secret or an id from which no keyed noise can be made. */
export class NoiseError extends LdpError {}
/** A report could not be stored, and so is not given out: drawing it again would reveal more. */
export class StorageError extends LdpError {}
