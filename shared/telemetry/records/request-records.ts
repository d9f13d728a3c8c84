import { appendFile, mkdir, open } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Writable } from 'node:stream';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Clock, Timer } from '../../clock/index.ts';

/** Record of one request when it is over. Durations are in milliseconds. */
export interface RequestEnd {
  readonly requestId: string;
  /** The client's own `x-request-id`. */
  readonly clientRequestId: string | undefined;
  readonly model: string;
  /** `chat_completions`, `completions`, ... */
  readonly endpoint: string;
  /** Status that the client got: 200 if a failure came inside of a stream, 499 if the client had left. */
  readonly status: number;
  /** `error_type` of the metrics; undefined when the request succeeded. */
  readonly errorType: string | undefined;
  /** Unix time. */
  readonly receivedMs: number;
  readonly totalMs: number;
  readonly ttftMs: number | undefined;
  readonly inputTokens: number | undefined;
  readonly outputTokens: number | undefined;
  readonly cachedTokens: number | undefined;
  readonly agentContext: Readonly<Record<string, unknown>> | undefined;
}

/** Takes note of requests. Never throws, never waits. */
export interface RequestRecorder {
  requestEnded(end: RequestEnd): void;
  /** Writes what is pending. */
  close(): Promise<void>;
}

/** The record as JSON, in the shape that readers of Dynamo's traces know (`dynamo.request.trace.v1`). */
function requestEndText(end: RequestEnd): string {
  return JSON.stringify({
    schema: 'dynamo.request.trace.v1',
    event_type: 'request_end',
    event_time_unix_ms: Math.round(end.receivedMs + end.totalMs),
    event_source: 'dynamo',
    agent_context: end.agentContext,
    request: {
      request_id: end.requestId,
      x_request_id: end.clientRequestId,
      model: end.model,
      endpoint: end.endpoint,
      status: end.status,
      error_type: end.errorType,
      input_tokens: end.inputTokens,
      output_tokens: end.outputTokens,
      cached_tokens: end.cachedTokens,
      request_received_ms: end.receivedMs,
      ttft_ms: end.ttftMs,
      total_time_ms: end.totalMs,
      avg_itl_ms: averageItlMs(end),
    },
  });
}

function averageItlMs({ ttftMs, totalMs, outputTokens = 0 }: RequestEnd): number | undefined {
  return ttftMs === undefined || outputTokens < 2 ? undefined : (totalMs - ttftMs) / (outputTokens - 1);
}

/** Where records go. */
export interface RecordSink {
  readonly name: string;
  /** Writes records, each one line of JSON without its end. */
  write(records: readonly string[]): Promise<void>;
}

export interface QueuedRecorderOptions {
  readonly sinks: readonly RecordSink[];
  readonly clock: Clock;
  /** Records that wait to be written; later ones are dropped. */
  readonly capacity: number;
  /** Hears of records that were lost: there was no room, or a sink failed. */
  readonly onDropped: (count: number, reason: 'queue_full' | 'sink_failed') => void;
  readonly onFailure: (sink: string, error: unknown) => void;
}

/** Longest time that a record waits. */
const FLUSH_MS = 1000;

/**
 * Writes records behind the requests' backs: in batches, one at a time, with a bound on what waits. A sink that is slow
 * or broken costs records, never requests.
 */
export class QueuedRecorder implements RequestRecorder {
  readonly #options: QueuedRecorderOptions;
  #waiting: RequestEnd[] = [];
  #timer: Timer | undefined;
  #writing: Promise<void> | undefined;

  constructor(options: QueuedRecorderOptions) {
    this.#options = options;
  }

  requestEnded(end: RequestEnd): void {
    const { capacity, clock, onDropped } = this.#options;
    if (this.#waiting.length >= capacity) {
      onDropped(1, 'queue_full');
      return;
    }
    this.#waiting.push(end);
    this.#timer ??= clock.after(FLUSH_MS, () => this.#startWriting());
    if (this.#waiting.length * 2 >= capacity) this.#startWriting();
  }

  async close(): Promise<void> {
    while (this.#writing !== undefined || this.#waiting.length > 0) {
      this.#startWriting();
      await this.#writing;
    }
  }

  #startWriting(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    if (this.#writing !== undefined || this.#waiting.length === 0) return;
    const batch = this.#waiting.map(requestEndText);
    this.#waiting = [];
    this.#writing = this.#write(batch).finally(() => {
      this.#writing = undefined;
      if (this.#waiting.length > 0) this.#startWriting(); // came in the meantime
    });
  }

  async #write(batch: readonly string[]): Promise<void> {
    const { sinks, onDropped, onFailure } = this.#options;
    const writeTo = (sink: RecordSink): Promise<void> =>
      sink.write(batch).catch((error: unknown) => {
        onDropped(batch.length, 'sink_failed');
        onFailure(sink.name, error);
      });
    await Promise.all(sinks.map(writeTo));
  }
}

const ROLL_BYTES_DEFAULT = 256 * 1024 * 1024;
const SEGMENT_DIGITS = 6;
const gzipAsync = promisify(gzip);

export interface FileSinkOptions {
  /** The file, or, of compressed records, what segments are named after: `<path>.000000.jsonl.gz`, ... */
  readonly path: string;
  readonly format: 'jsonl' | 'jsonl_gz';
  readonly clock: Clock;
  /** Records of a segment before compression. @default 256 MiB */
  readonly rollBytes?: number;
}

/**
 * Appends records to a file, each in the envelope that readers of Dynamo's traces expect:
 * `{"timestamp": <ms since the sink was opened>, "event": <record>}`. Every batch is a gzip member of its own, so a
 * file is readable whenever it is looked at.
 */
export function createFileSink(options: FileSinkOptions): RecordSink {
  const { clock } = options;
  const startedMs = clock.nowMs();
  const target = options.format === 'jsonl' ? plainFile(options.path) : segments(options);
  let isReady: Promise<unknown> | undefined;
  return {
    name: 'file',
    async write(records) {
      isReady ??= mkdir(dirname(options.path), { recursive: true });
      await isReady;
      const timestamp = Math.round(clock.nowMs() - startedMs);
      await target(records.map((record) => `{"timestamp":${timestamp},"event":${record}}\n`).join(''));
    },
  };
}

type Append = (text: string) => Promise<void>;

function plainFile(path: string): Append {
  return (text) => appendFile(path, text);
}

/** Writes to a segment until it is full, then to the next one that no process has begun. */
function segments({ path, rollBytes = ROLL_BYTES_DEFAULT }: FileSinkOptions): Append {
  let segment: string | undefined;
  let next = 0;
  let sizeBytes = 0;
  return async (text) => {
    if (segment === undefined || sizeBytes >= rollBytes) {
      ({ segment, next } = await beginSegment(path, next));
      sizeBytes = 0;
    }
    sizeBytes += Buffer.byteLength(text);
    await appendFile(segment, await gzipAsync(text));
  };
}

async function beginSegment(path: string, from: number): Promise<{ readonly segment: string; readonly next: number }> {
  for (let at = from; ; at++) {
    const segment = `${path}.${String(at).padStart(SEGMENT_DIGITS, '0')}.jsonl.gz`;
    try {
      await (await open(segment, 'wx')).close();
      return { segment, next: at + 1 };
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error; // another process's, or an earlier run's
    }
  }
}

/** Writes records to a stream, one a line; the promise of a batch waits until the stream has taken it. */
export function createStreamSink(name: string, stream: Writable): RecordSink {
  return {
    name,
    write: (records) =>
      new Promise((resolve, reject) => {
        stream.write(`${records.join('\n')}\n`, (error) => (error == null ? resolve() : reject(error)));
      }),
  };
}
