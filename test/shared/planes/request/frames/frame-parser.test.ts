import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  FrameError,
  FrameParser,
  FrameType,
  type FrameTypeCode,
} from '../../../../../shared/planes/request/frames/frame.ts';
import { FrameLog, frameBytes } from '../tcp/raw-peer.ts';

const frameType = fc.constantFrom<FrameTypeCode>(...Object.values(FrameType));
const frame = fc.record({
  type: frameType,
  streamId: fc.nat({ max: 0xffff_ffff }),
  payload: fc.oneof(
    fc.uint8Array({ maxLength: 64 }),
    fc.nat(20_000).map((length) => new Uint8Array(length).fill(length)),
  ),
});

/** Cuts `bytes` at the given places, as a network might. */
function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const ends = [...places.map((place) => place % (bytes.length + 1)), bytes.length].sort((a, b) => a - b);
  let from = 0;
  return ends.map((end) => {
    const piece = Buffer.from(bytes.subarray(from, end)); // a copy: nothing may survive its chunk
    from = end;
    return piece;
  });
}

/** A frame in a form that is quick to compare. */
function asText(seen: { type: number; streamId: number; payload: Uint8Array }): string {
  return `${seen.type} ${seen.streamId} ${Buffer.from(seen.payload).toString('latin1')}`;
}

describe('frame parser', () => {
  it('finds the same frames under any chunking', () => {
    fc.assert(
      fc.property(fc.array(frame, { maxLength: 12 }), fc.array(fc.nat(), { maxLength: 40 }), (frames, places) => {
        const stream = Buffer.concat(frames.map((each) => frameBytes(each.type, each.streamId, each.payload)));
        const log = new FrameLog();
        const parser = new FrameParser(log, 1 << 20);
        for (const piece of cut(stream, places)) {
          parser.push(piece);
          piece.fill(0xee);
        }
        expect(log.frames.map(asText)).toEqual(frames.map(asText));
      }),
    );
  });

  it('finds the same frames byte by byte', () => {
    const stream = Buffer.concat([
      frameBytes(FrameType.hello, 0, 'one'),
      frameBytes(FrameType.kill, 3, ''),
      frameBytes(FrameType.data, 3, 'two'),
    ]);
    const log = new FrameLog();
    const parser = new FrameParser(log, 100);
    for (const byte of stream) parser.push(Buffer.of(byte));
    expect(log.frames.map((each) => each.payload.toString())).toEqual(['one', '', 'two']);
  });

  it('gives the memory of a large frame away, under any chunking', () => {
    fc.assert(
      fc.property(
        fc.array(fc.nat(), { maxLength: 20 }),
        fc.array(fc.integer({ min: 900_000, max: 1_300_000 }), { minLength: 1, maxLength: 3 }),
        (places, lengths) => {
          const payloads = lengths.map((length, at) => Buffer.alloc(length, at + 1));
          const stream = Buffer.concat(payloads.map((each) => frameBytes(FrameType.data, 1, each)));
          const kept: Buffer[] = [];
          const seen: string[] = [];
          const parser = new FrameParser(
            {
              frame: (_type, _streamId, bytes, start, end, isKept) => {
                seen.push(createHash('md5').update(bytes.subarray(start, end)).digest('hex'));
                if (isKept) kept.push(bytes.subarray(start, end));
              },
              oversize: () => {},
            },
            1 << 24,
          );
          for (const piece of cut(stream, places)) {
            parser.push(piece);
            piece.fill(0xee);
          }
          expect(seen).toEqual(payloads.map((each) => createHash('md5').update(each).digest('hex')));
          for (const each of kept) expect(payloads.some((payload) => payload.equals(each))).toBe(true);
        },
      ),
      { numRuns: 20 },
    );
  });

  it('has room for a large frame by what has come of it, not by its length', () => {
    const header = frameBytes(FrameType.data, 1, '');
    header.writeUInt32BE(1 << 30);
    const parser = new FrameParser(new FrameLog(), 1 << 30);
    const before = process.memoryUsage().arrayBuffers;
    parser.push(header);
    for (let chunk = 0; chunk < 64; chunk++) parser.push(Buffer.alloc(64 << 10)); // 4 MiB
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(64 << 20);
  });

  it('skips a frame beyond the limit, reports it, and reads on', () => {
    fc.assert(
      fc.property(
        fc.array(fc.nat(), { maxLength: 10 }),
        fc.integer({ min: 101, max: 5000 }),
        (places, payloadBytes) => {
          const stream = Buffer.concat([
            frameBytes(FrameType.data, 1, 'before'),
            frameBytes(FrameType.data, 7, new Uint8Array(payloadBytes).fill(14)),
            frameBytes(FrameType.data, 3, 'after'),
          ]);
          const log = new FrameLog();
          const parser = new FrameParser(log, 100);
          for (const piece of cut(stream, places)) parser.push(piece);
          expect(log.frames.map((each) => each.payload.toString())).toEqual(['before', 'after']);
          expect(log.oversized).toEqual([{ type: FrameType.data, streamId: 7, payloadBytes }]);
        },
      ),
    );
  });

  it('meets random bytes with nothing but a protocol error', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 200 }), { maxLength: 10 }), (pieces) => {
        const parser = new FrameParser(new FrameLog(), 1000);
        try {
          for (const piece of pieces) parser.push(Buffer.from(piece));
        } catch (error) {
          expect(error).toBeInstanceOf(FrameError);
        }
      }),
    );
  });

  it.each([
    ['another version', [0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0]],
    ['an unknown type', [0, 0, 0, 0, 1, 18, 0, 0, 0, 0, 0, 0]],
    ['type zero', [0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]],
  ])('refuses %s', (_name, header) => {
    expect(() => new FrameParser(new FrameLog(), 100).push(Buffer.from(header))).toThrow(FrameError);
    const parser = new FrameParser(new FrameLog(), 100);
    parser.push(Buffer.from(header.slice(0, 5)));
    expect(() => parser.push(Buffer.from(header.slice(5)))).toThrow(FrameError);
  });

  it('reads no further once stopped, also from inside a frame', () => {
    const log = new FrameLog();
    const parser = new FrameParser(
      {
        frame: (type, streamId, bytes, start, end) => {
          log.frame(type, streamId, bytes, start, end);
          parser.stop();
        },
        oversize: () => {},
      },
      100,
    );
    parser.push(Buffer.concat([frameBytes(FrameType.end, 1, ''), frameBytes(FrameType.end, 3, '')]));
    parser.push(frameBytes(FrameType.end, 5, ''));
    expect(log.frames.map((each) => each.streamId)).toEqual([1]);
  });
});
