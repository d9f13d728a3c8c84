import { isRecord } from '../records/index.ts';
import { toWorkload, type Workload, type WorkloadRequest } from './workload.ts';

/** A line of a trace that cannot be replayed. `line` counts from 1. */
export class TraceError extends Error {
  override readonly name = 'TraceError';
  readonly line: number;
  readonly field: string | undefined;

  constructor(line: number, field: string | undefined, fault: string) {
    super(field === undefined ? `line ${line}: ${fault}` : `line ${line}: field ${JSON.stringify(field)} ${fault}`);
    this.line = line;
    this.field = field;
  }
}

const TOKENS_MAX = 2 ** 31;
const PRIORITY_MAX = 2 ** 31;

/**
 * Reads a trace in Mooncake's format, one JSON object a line.
 *
 * | Field | Meaning |
 * |---|---|
 * | `timestamp` or `created_time` | ms; the first line's is the start. A later turn of a session may go without |
 * | `input_length`, `output_length` | tokens |
 * | `hash_ids` | one id per started segment of `segmentTokens` prompt tokens; equal ids are equal prefixes |
 * | `session_id`, `delay` or `delay_ms` | optional: the request waits for the session's one before, then `delay` ms |
 * | `priority`, `strict_priority` | optional: seconds ahead in the router's queue, and its tier |
 * | `worker` | optional: number of the worker that the client names, from 0; for the mode `direct` |
 *
 * @throws TraceError that names the line and the field
 */
export function parseTrace(text: string, segmentTokens: number): Workload {
  const requests: WorkloadRequest[] = [];
  const sessions = new Set<string>();
  let line = 0;
  let startMs: number | undefined;
  for (let from = 0; from < text.length; ) {
    const end = text.indexOf('\n', from);
    const record = text.slice(from, end < 0 ? undefined : end).trim();
    from = end < 0 ? text.length : end + 1;
    line++;
    if (record === '') continue;
    const reader = new RecordReader(line, record);
    const sessionId = reader.text('session_id');
    const isLaterTurn = sessionId !== undefined && sessions.has(sessionId);
    if (sessionId !== undefined) sessions.add(sessionId);
    const timestamp = reader.time(isLaterTurn);
    startMs ??= timestamp;
    const earlierMs = requests.at(-1)?.arrivalMs ?? 0;
    const arrivalMs = timestamp === undefined ? earlierMs : timestamp - (startMs ?? 0);
    if (!isLaterTurn && arrivalMs < earlierMs)
      throw reader.fault('timestamp', 'is earlier than that of the line before');
    requests.push({ ...reader.lengths(segmentTokens), arrivalMs, sessionId, ...reader.hints() });
  }
  if (requests.length === 0) throw new TraceError(Math.max(1, line), undefined, 'the trace holds no request');
  return toWorkload(requests, segmentTokens);
}

class RecordReader {
  readonly #line: number;
  readonly #fields: Readonly<Record<string, unknown>>;

  constructor(line: number, record: string) {
    this.#line = line;
    let value: unknown;
    try {
      value = JSON.parse(record);
    } catch {
      throw new TraceError(line, undefined, `is not JSON: ${shorten(record)}`);
    }
    if (!isRecord(value)) throw new TraceError(line, undefined, 'is not a JSON object');
    this.#fields = value;
  }

  fault(field: string, fault: string): TraceError {
    return new TraceError(this.#line, field, fault);
  }

  time(mayBeAbsent: boolean): number | undefined {
    const field = 'timestamp' in this.#fields ? 'timestamp' : 'created_time';
    if (!(field in this.#fields)) {
      if (mayBeAbsent) return undefined;
      throw this.fault('timestamp', 'is missing');
    }
    return this.#number(field, 0, Number.MAX_SAFE_INTEGER);
  }

  lengths(segmentTokens: number): Pick<WorkloadRequest, 'inputTokens' | 'outputTokens' | 'segmentIds'> {
    const inputTokens = this.#whole('input_length', 1, TOKENS_MAX);
    // An answer of no tokens is over with its prefill, which takes one.
    const outputTokens = Math.max(1, this.#whole('output_length', 0, TOKENS_MAX));
    const ids = this.#fields.hash_ids;
    if (!Array.isArray(ids)) throw this.fault('hash_ids', `must be a list, got ${shorten(JSON.stringify(ids))}`);
    const count = Math.ceil(inputTokens / segmentTokens);
    if (ids.length !== count) {
      const wanted = `must hold ${count} ids, one per ${segmentTokens} tokens of the prompt, got ${ids.length}`;
      throw this.fault('hash_ids', `${wanted}; --trace-block-size says how many tokens an id stands for`);
    }
    const bad = ids.findIndex((id) => !Number.isSafeInteger(id));
    if (bad >= 0) throw this.fault('hash_ids', `must hold whole numbers, got ${shorten(JSON.stringify(ids[bad]))}`);
    return { inputTokens, outputTokens, segmentIds: ids };
  }

  hints(): Pick<WorkloadRequest, 'delayMs' | 'priorityJump' | 'strictPriority' | 'worker'> {
    return {
      delayMs: this.#optional('delay_ms') ?? this.#optional('delay'),
      priorityJump: this.#optional('priority'),
      strictPriority: 'strict_priority' in this.#fields ? this.#whole('strict_priority', 0, PRIORITY_MAX) : undefined,
      worker: 'worker' in this.#fields ? this.#whole('worker', 0, PRIORITY_MAX) : undefined,
    };
  }

  text(field: string): string | undefined {
    const value = this.#fields[field];
    if (value === undefined || value === null) return undefined;
    if (typeof value === 'string' || typeof value === 'number') return String(value);
    throw this.fault(field, `must be a text, got ${shorten(JSON.stringify(value))}`);
  }

  #optional(field: string): number | undefined {
    const value = this.#fields[field];
    return value === undefined || value === null ? undefined : this.#number(field, 0, Number.MAX_SAFE_INTEGER);
  }

  #whole(field: string, min: number, max: number): number {
    const value = this.#number(field, min, max);
    if (!Number.isInteger(value)) throw this.fault(field, `must be a whole number, got ${value}`);
    return value;
  }

  #number(field: string, min: number, max: number): number {
    const value = this.#fields[field];
    if (value === undefined) throw this.fault(field, 'is missing');
    if (typeof value === 'number' && value >= min && value <= max) return value;
    throw this.fault(field, `must be a number from ${min} to ${max}, got ${shorten(JSON.stringify(value))}`);
  }
}

function shorten(text: string | undefined): string {
  const whole = String(text);
  return whole.length > 60 ? `${whole.slice(0, 57)}...` : whole;
}
