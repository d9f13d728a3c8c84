import type { Writable } from 'node:stream';
import type { RecordSink } from './queued-recorder.ts';

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
