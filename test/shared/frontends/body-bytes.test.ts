import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BodyBytes } from '../../../shared/frontends/http/exchange/body-intake.ts';
import { heldBytes } from '../../support/held-bytes.ts';

describe('BodyBytes', () => {
  it('gives back what was put in, in chunks of any size', () => {
    const chunk = fc.oneof(
      fc.uint8Array({ maxLength: 50 }),
      fc.integer({ min: 16_000, max: 17_000 }).map((length) => new Uint8Array(length).fill(length)),
    );
    fc.assert(
      fc.property(fc.array(chunk, { maxLength: 40 }), (chunks) => {
        const bytes = new BodyBytes();
        for (const part of chunks) bytes.add(part);
        const whole = Buffer.concat(chunks);
        expect(bytes.sizeBytes).toBe(whole.length);
        expect(Buffer.compare(bytes.take(), whole)).toBe(0);
        expect(bytes.sizeBytes).toBe(0);
      }),
    );
  });

  it('does not copy a body that came in one chunk', () => {
    const bytes = new BodyBytes();
    const whole = Buffer.from('whole');
    bytes.add(whole);
    expect(bytes.take()).toBe(whole);
  });

  it('takes about as much memory as the body has, when that comes byte by byte', () => {
    const size = 1024 * 1024;
    const bytes = new BodyBytes();
    const before = heldBytes();
    for (let at = 0; at < size; at++) bytes.add(Buffer.allocUnsafeSlow(1));
    expect(heldBytes() - before).toBeLessThan(4 * size);
    expect(bytes.take()).toHaveLength(size);
  });
});
