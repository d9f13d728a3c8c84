import type { RecordedRow } from './records.ts';
import { readPayload, readWire } from './wire-answer.ts';

/** One request as it was played: what came back, and what the workers saw meanwhile. */
export interface Exchange {
  readonly row: RecordedRow;
  /** All that the server sent. */
  readonly bytes: Buffer;
  readonly startedMs: number;
  readonly endedMs: number;
  /** When the server started; no time that it tells lies before. */
  readonly serverStartedMs: number;
  /** Requests as the workers got them. */
  readonly worker: readonly Record<string, unknown>[];
  readonly wasCancelled: boolean;
  /** Id of the instance behind each model. */
  readonly instances: ReadonlyMap<string, string>;
}

export const isCutShort = (row: RecordedRow): boolean => row.connection === 'client closed';

/** The answer in an exchange, and every fault of its framing. */
export function readAnswer({ row, bytes }: Pick<Exchange, 'row' | 'bytes'>) {
  const context = { method: row.request.method, isCut: isCutShort(row) };
  const wire = readWire(bytes, context);
  const { answer, faults } = readPayload(wire, context);
  return { answer, faults: [...wire.faults, ...faults] };
}
