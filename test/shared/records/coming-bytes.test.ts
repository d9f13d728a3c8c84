import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { ComingBytes } from '../../../shared/records/index.ts';

/** Numbers that differ from their neighbours at every distance. */
function numbered(length: number): Buffer {
  return Buffer.from(Uint8Array.from({ length }, (_, at) => (at * 2_654_435_761) >>> 24));
}

const wantedBytes = fc.oneof(fc.integer({ min: 1, max: 5000 }), fc.integer({ min: 5000, max: 600_000 }));
const partBytes = fc.oneof(fc.integer({ min: 1, max: 100 }), fc.integer({ min: 1, max: 70_000 }));

describe('bytes that come in parts', () => {
  it('are whole when all have come, in order, and no more is taken', () => {
    fc.assert(
      fc.property(wantedBytes, fc.array(partBytes, { minLength: 1, maxLength: 12 }), (wanted, parts) => {
        const all = numbered(wanted + 10);
        const coming = new ComingBytes(wanted);
        let at = 0;
        for (let round = 0; !coming.isWhole; round++) {
          const chunk = Buffer.from(all.subarray(at, at + Math.max(parts[round % parts.length]!, wanted / 500)));
          const taken = coming.take(chunk);
          expect(taken).toBe(Math.min(chunk.length, wanted - at));
          at += taken;
          chunk.fill(0);
        }
        expect(coming.bytes.equals(all.subarray(0, wanted))).toBe(true);
        expect(coming.take(all)).toBe(0);
      }),
    );
  });

  it('have at most four times the room of what has come', () => {
    fc.assert(
      fc.property(fc.array(partBytes, { minLength: 1, maxLength: 200 }), (parts) => {
        const allocated = vi.spyOn(Buffer, 'allocUnsafeSlow');
        try {
          const coming = new ComingBytes(2 ** 30);
          let come = 0;
          for (const length of parts) {
            come += coming.take(Buffer.alloc(length));
            const room = allocated.mock.calls.reduce((sum, [size]) => sum + size, 0);
            expect(room).toBeLessThanOrEqual(Math.max(1024, 4 * come));
          }
        } finally {
          allocated.mockRestore();
        }
      }),
    );
  });

  it('are read from where they begin in a chunk', () => {
    const coming = new ComingBytes(4);
    expect(coming.take(Buffer.from('..abc'), 2)).toBe(3);
    expect(coming.isWhole).toBe(false);
    expect(coming.take(Buffer.from('...defg'), 3)).toBe(1);
    expect(coming.bytes.toString()).toBe('abcd');
  });
});
