import { asRecord, asWholeNumber } from '../../records/index.ts';
import { workerIdOf } from './decode-events.ts';

/** What a worker says of one of its ranks. Undefined = it does not say. */
export interface LoadReport {
  /** Hex. */
  readonly workerId: string;
  readonly dpRank: number;
  readonly usedKvBlocks: number | undefined;
  readonly activePrefillTokens: number | undefined;
  readonly activeDecodeBlocks: number | undefined;
  /** Last KV event that the rank published. */
  readonly lastEventId: number | undefined;
  /** Requests with a reservation that have come to the worker since its last report, and those that have gone. */
  readonly arrivedRequests: readonly string[];
  readonly leftRequests: readonly string[];
}

/** The report in a message of `kv_metrics`; undefined when it is none. */
export function decodeLoadReport(payload: unknown): LoadReport | undefined {
  const fields = asRecord(payload);
  if (fields === undefined) return undefined;
  const workerId = workerIdOf(fields.worker_id);
  const dpRank = asWholeNumber(fields.dp_rank ?? 0);
  if (workerId === undefined || dpRank === undefined) return undefined;
  return {
    workerId,
    dpRank,
    usedKvBlocks: asWholeNumber(fields.kv_used_blocks),
    activePrefillTokens: asWholeNumber(fields.active_prefill_tokens),
    activeDecodeBlocks: asWholeNumber(fields.active_decode_blocks),
    lastEventId: asWholeNumber(fields.last_event_id),
    arrivedRequests: texts(fields.arrived_requests),
    leftRequests: texts(fields.left_requests),
  };
}

const NO_TEXTS: readonly string[] = [];

function texts(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((each) => typeof each === 'string') : NO_TEXTS;
}

/** The last report of each rank of the workers that are followed. */
export class WorkerLoads {
  readonly #ranksOf = new Map<string, Map<number, LoadReport>>();
  #version = 0;

  /** Changes with every report and every worker that leaves. */
  get version(): number {
    return this.#version;
  }

  /** Keeps the report if its worker is expected. */
  set(report: LoadReport): void {
    const ranks = this.#ranksOf.get(report.workerId);
    if (ranks === undefined) return;
    ranks.set(report.dpRank, report);
    this.#version++;
  }

  of(workerId: string, dpRank: number): LoadReport | undefined {
    return this.#ranksOf.get(workerId)?.get(dpRank);
  }

  /** Reports of this worker are kept from now on. Idempotent. */
  expect(workerId: string): void {
    if (!this.#ranksOf.has(workerId)) this.#ranksOf.set(workerId, new Map());
  }

  forget(workerId: string): void {
    if (this.#ranksOf.delete(workerId)) this.#version++;
  }
}
