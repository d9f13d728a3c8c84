import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FrameType } from '../../../../../shared/planes/request/frames/frame.ts';
import { ByteWriter } from '../../../../../shared/planes/request/frames/outbox.ts';

/** The frame as the protocol has it. */
function plainFrame(streamId: number, payload: Uint8Array): Buffer {
  const header = Buffer.alloc(12);
  header.writeUInt32BE(payload.length);
  header[4] = 1;
  header[5] = FrameType.data;
  header[7] = 1;
  header.writeUInt32BE(streamId, 8);
  return Buffer.concat([header, payload]);
}

const payload = fc
  .oneof(fc.nat(100), fc.integer({ min: 32_000, max: 33_500 }), fc.integer({ min: 60_000, max: 70_000 }))
  .chain((length) => fc.nat(255).map((byte) => new Uint8Array(length).fill(byte)));
const step = fc.oneof(
  fc.record({ kind: fc.constant('frame' as const), at: fc.nat(1), pieces: fc.array(payload, { maxLength: 4 }) }),
  fc.record({ kind: fc.constant('move' as const) }),
);

describe('a byte writer', () => {
  it('holds what was appended in order, also what was moved, however large', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 12 }), (steps) => {
        const writers = [new ByteWriter(), new ByteWriter()] as const;
        const expected: [Buffer[], Buffer[]] = [[], []];
        for (const [streamId, each] of steps.entries()) {
          if (each.kind === 'move') {
            writers[1].moveTo(writers[0]);
            expected[0].push(...expected[1].splice(0));
            continue;
          }
          const whole = Buffer.concat(each.pieces);
          expected[each.at as 0 | 1].push(plainFrame(streamId, whole));
          if (each.pieces.length === 1) writers[each.at]!.frame(FrameType.data, streamId, each.pieces[0]!);
          else writers[each.at]!.frameOf(FrameType.data, streamId, each.pieces);
        }
        for (const [at, writer] of writers.entries()) {
          const all = Buffer.concat(expected[at]!);
          expect(writer.totalBytes).toBe(all.length);
          expect(Buffer.concat(writer.pieces()).equals(all)).toBe(true);
        }
      }),
    );
  });

  it('does not copy large pieces, and keeps what stands before them', () => {
    const writer = new ByteWriter();
    const large = new Uint8Array(100_000);
    writer.frame(FrameType.proof, 0, new Uint8Array(4));
    writer.frame(FrameType.data, 1, large);
    writer.frame(FrameType.end, 1, new Uint8Array(0));
    writer.overwrite(12, Uint8Array.of(1, 2, 3, 4));
    expect(writer.pieces()).toContain(large);
    expect(Buffer.concat(writer.pieces()).subarray(12, 16)).toEqual(Buffer.of(1, 2, 3, 4));
    writer.empty();
    expect([writer.totalBytes, Buffer.concat(writer.pieces()).length]).toEqual([0, 0]);
  });
});
