import { describe, expect, it } from 'vitest';
import { valueMemory } from '../../../../shared/protocol/index.ts';

describe('the memory of a value', () => {
  it('grows with texts, entries and elements', () => {
    expect(valueMemory({ a: 'x'.repeat(1000) })).toBeGreaterThan(valueMemory({ a: 'x' }) + 999);
    expect(valueMemory([1, 2, 3])).toBeGreaterThan(valueMemory([1]));
    expect(valueMemory({ a: { b: 1 } })).toBeGreaterThan(valueMemory({ a: 1 }));
  });

  it('is that of its bytes for a tensor, not that of a value for each of them', () => {
    const bytes = 1 << 20;
    for (const values of [new Uint8Array(bytes), Buffer.alloc(bytes), new Float64Array(bytes / 8)]) {
      expect(valueMemory({ values })).toBeGreaterThanOrEqual(bytes);
      expect(valueMemory({ values })).toBeLessThan(bytes + 1024);
    }
  });
});
