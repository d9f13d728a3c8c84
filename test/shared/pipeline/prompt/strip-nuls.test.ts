import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { stripNuls } from '../../../../shared/pipeline/prompt/prompt-tokens.ts';

describe('stripNuls', () => {
  it('leaves everything else as it was', () => {
    const text = fc.string({ unit: fc.constantFrom('\0', 'a', 'é', '漢', '😀') });
    fc.assert(fc.property(text, (given) => stripNuls(given) === given.replaceAll('\0', '')));
  });

  it('makes no object for each of them', () => {
    const text = Buffer.from('a\0'.repeat(4_000_000)).toString('latin1');
    const heapBytes = process.memoryUsage().heapUsed;
    expect(stripNuls(text)).toHaveLength(4_000_000);
    expect(process.memoryUsage().heapUsed - heapBytes).toBeLessThan(32_000_000); // 130,000,000 by `replaceAll`
  });
});
