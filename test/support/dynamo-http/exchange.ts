import type { RecordedRow } from './records.ts';
import { readPayload, readWire } from './wire-answer.ts';

/** One played request: what came back, and what the workers saw meanwhile. */
export interface Exchange {
  readonly row: RecordedRow;
  /** All bytes from the server. */
  readonly bytes: Buffer;
  readonly startedMs: number;
  readonly endedMs: number;
  /** Start of the server. It reports no earlier time. */
  readonly serverStartedMs: number;
  /** Requests as the workers received them. */
  readonly worker: readonly Record<string, unknown>[];
  readonly wasCancelled: boolean;
  /** Id of the instance behind each model. */
  readonly instances: ReadonlyMap<string, string>;
}

export const isCutShort = (row: RecordedRow): boolean => row.connection === 'client closed';

/** Reads the answer in an exchange, and every fault of its framing. */
export function readAnswer({ row, bytes }: Pick<Exchange, 'row' | 'bytes'>) {
  const context = { method: row.request.method, isCut: isCutShort(row) };
  const wire = readWire(bytes, context);
  const { answer, faults } = readPayload(wire, context);
  return { answer, faults: [...wire.faults, ...faults] };
}
