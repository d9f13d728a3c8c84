import { type Clock, systemClock } from '../clock/index.ts';
import { utf8Text } from '../records/index.ts';
import { withDeadline } from './deadline.ts';

/** Limits of a body. */
interface TextBounds {
  readonly bytesMax: number;
  /** Longest time that the whole body may take. */
  readonly timeoutMs: number;
  readonly clock?: Clock;
}

/** Text of a body, or what is wrong with the body. */
export type ReadText =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'too-large'; readonly text?: undefined }
  | { readonly kind: 'no-utf8'; readonly text?: undefined };

/**
 * Reads a body that comes in pieces. If the body is too large, stops as soon as that is known.
 * @throws Error `the body took more than <timeoutMs> ms`; and whatever `pieces` throws
 */
export function readText(
  pieces: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  { bytesMax, timeoutMs, clock = systemClock }: TextBounds,
): Promise<ReadText> {
  const lateMessage = `the body took more than ${timeoutMs} ms`;
  return withDeadline({ clock, timeoutMs, lateMessage }, async (signal) => {
    const parts: Uint8Array[] = [];
    let bytes = 0;
    for await (const piece of pieces) {
      signal.throwIfAborted(); // no one waits for the rest
      bytes += piece.byteLength;
      if (bytes > bytesMax) return { kind: 'too-large' };
      parts.push(piece);
    }
    const text = utf8Text(parts.length === 1 ? (parts[0] as Uint8Array) : Buffer.concat(parts));
    return text === undefined ? { kind: 'no-utf8' } : { kind: 'text', text };
  });
}
