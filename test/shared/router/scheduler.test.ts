import { describe, expect, it } from 'vitest';
import { Pool, promptTokens } from './pool.ts';

describe('scheduler', () => {
  it('sends a prompt to the worker that has cached it', () => {
    const pool = new Pool();
    const prompt = promptTokens(160);
    pool.store('b', prompt);
    const { decision } = pool.submit('r1', prompt);
    expect(decision).toMatchObject({ workerId: 'b', deviceBlocks: 10, cachedTokens: 160, reason: 'lowest-cost' });
  });
});
