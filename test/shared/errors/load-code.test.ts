import { describe, expect, it } from 'vitest';
import { loadCode } from '../../../shared/errors/index.ts';

describe('code that is loaded when it is first needed', () => {
  it('is what it is', async () => {
    expect(await loadCode('paths', () => import('node:path'))).toBe(await import('node:path'));
  });

  it('says what could not be loaded, why, and what helps, as the same import fails from then on', async () => {
    const missing = './of-nobody.ts';
    const loading = loadCode('figures', () => import(missing));
    await expect(loading).rejects.toThrow(
      /^the code for figures could not be loaded: .*of-nobody.*; it is not tried again before the process is started anew$/s,
    );
    await expect(loading).rejects.toMatchObject({ cause: expect.any(Error) });
  });
});
