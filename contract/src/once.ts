/** A request with an `Idempotency-Key`: its caller may send it again, and it is done once. */
export interface Once {
  /** The owner of the caller's key; the operator's is empty. */
  readonly caller: string;
  readonly key: string;
  readonly operation: string;
  /** Of all that the request says. */
  readonly digest: string;
}
