/** What one live process has in the fleet. */
export interface Member {
  readonly leaseId: string;
  readonly epoch: number;
  /** Raised by each change of the records. */
  readonly rev: number;
  /** Its packed records, one after the other (`packBlock`). */
  readonly block: Uint8Array;
  /** What its workers carry (`packLoads`); no bytes = not known. */
  readonly load: Uint8Array;
}

/** The live processes by lease id. */
export type Fleet = ReadonlyMap<string, Member>;

/** Whether `one` is of an earlier state of its process than `other`. */
export function isEarlier(
  one: { readonly epoch: number; readonly rev: number },
  other: { readonly epoch: number; readonly rev: number },
): boolean {
  return one.epoch < other.epoch || (one.epoch === other.epoch && one.rev < other.rev);
}
