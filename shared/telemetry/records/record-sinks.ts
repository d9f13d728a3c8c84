import { appendFile, mkdir, open } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Writable } from 'node:stream';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Clock } from '../../clock/index.ts';
import type { RecordSink } from './request-records.ts';

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
 * `{"timestamp": <ms since the sink was opened>, "event": <record>}`. Every batch is a gzip member of its own, so a file is
 * readable whenever it is looked at.
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
    close: async () => {},
  };
}

type Append = (text: string) => Promise<void>;

function plainFile(path: string): Append {
  return (text) => appendFile(path, text);
}

/** Writes to a segment until it is full, then to the next that nobody has begun. */
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
    close: async () => {},
  };
}
