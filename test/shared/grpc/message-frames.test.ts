import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { framed, MessageFrames } from '../../../shared/grpc/message-frames.ts';

/** Reads what `bytes` holds, cut at `cuts`. */
function readCut(bytes: Buffer, cuts: readonly number[], bytesMax = 1 << 20): readonly Buffer[] {
  const frames = new MessageFrames(bytesMax);
  const read: Buffer[] = [];
  const places = [...new Set([0, ...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length])].sort((a, b) => a - b);
  for (const [at, from] of places.entries()) {
    frames.add(Buffer.from(bytes.subarray(from, places[at + 1] ?? from)));
    for (let message = frames.next(); message !== undefined; message = frames.next()) read.push(Buffer.from(message));
  }
  expect(frames.isEmpty).toBe(true);
  return read;
}

describe('frames of messages', () => {
  const messages = fc.array(fc.uint8Array({ maxLength: 3000 }), { maxLength: 8 });

  it('are the same however their bytes are cut', () => {
    fc.assert(
      fc.property(messages, fc.array(fc.nat(), { maxLength: 30 }), (all, cuts) => {
        const bytes = Buffer.concat(all.map(framed));
        expect(readCut(bytes, cuts).map((each) => each.toString('hex'))).toEqual(
          all.map((each) => Buffer.from(each).toString('hex')),
        );
      }),
      { numRuns: 500 },
    );
  });

  it('are put together of single bytes', () => {
    const message = Buffer.alloc(5000, 'abc');
    const bytes = Buffer.concat([framed(message), framed(Buffer.alloc(0))]);
    const cuts = Array.from(bytes, (_, at) => at);
    expect(readCut(bytes, cuts)).toEqual([message, Buffer.alloc(0)]);
  });

  it('take no room for a length that is only stated', () => {
    const prefix = Buffer.from([0, 0x7f, 0xff, 0xff, 0xff, 1, 2, 3]);
    const allocated = vi.spyOn(Buffer, 'allocUnsafeSlow');
    const frames = new MessageFrames(2 ** 31 - 1);
    frames.add(prefix);
    expect(frames.next()).toBeUndefined();
    for (let at = 0; at < 4096; at++) frames.add(Buffer.alloc(1));
    const sizes = allocated.mock.calls.map(([size]) => size);
    allocated.mockRestore();
    expect(Math.max(...sizes)).toBeLessThanOrEqual(16 * 1024 + 20);
    expect(sizes.length).toBeGreaterThan(1);
  });

  it('refuse a message that is too long, or compressed', () => {
    const read = (prefix: readonly number[]) => () => {
      const frames = new MessageFrames(1000);
      frames.add(Buffer.from(prefix));
      return frames.next();
    };
    expect(read([0, 0, 0, 3, 0xe9])).toThrow('Received message larger than max (1001 vs 1000)');
    expect(read([1, 0, 0, 0, 1])).toThrow('Compressed messages are not supported');
    expect(read([0, 0, 0, 3, 0xe8])()).toBeUndefined();
  });
});
