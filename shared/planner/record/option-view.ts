import type { Pool } from '../types.ts';

/** One capacity option of a fleet as it is now, or a pool without options. Counts are in workers. */
export interface OptionView {
  readonly pool: Pool;
  /** `decode/1-spot`; the pool if it has no options. */
  readonly key: string;
  readonly serving: number;
  readonly draining: number;
  /** Workers whose machines are ordered and do not exist. */
  readonly ordered: number;
  /** Machines that start; undefined: only the number of the workers on them is known. */
  readonly startingIds?: readonly string[] | undefined;
  readonly starting: number;
  /** GPUs of a worker; undefined: as its engine says. */
  readonly gpusPerWorker?: number | undefined;
  /** The newest launch that failed: its code, types of machines, zone and time. */
  readonly failure?:
    | {
        readonly code: string;
        readonly types: readonly string[];
        readonly zone?: string | undefined;
        readonly atMs: number;
      }
    | undefined;
}
