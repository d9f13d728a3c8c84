import type { ServeError } from '../../errors/index.ts';
import type { EngineOutput } from './engine-output.ts';

/**
 * Where an engine writes what it makes and where a requester reads it: the request plane carries these calls from one
 * side to the other. Pushed, not pulled, so that a token costs no object and no promise.
 *
 * | State | `tokens`, `output` | `end`, `fail` |
 * |---|---|---|
 * | open | delivered in order | closes |
 * | closed, or its call was killed | ignored | ignored |
 */
export interface OutputSink {
  /** Plain tokens of one choice: `ids[start .. start + count)`. The array is only valid during the call. */
  tokens(choice: number, ids: ArrayLike<number>, start: number, count: number): void;
  /** A delta with more than token ids. */
  output(output: EngineOutput): void;
  /** The stream is complete. A stream that stops without it has failed. */
  end(): void;
  /** The stream has failed; nothing follows. */
  fail(error: ServeError): void;
}
