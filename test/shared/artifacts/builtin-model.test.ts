import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { builtinModelPath, builtinText } from '../../../shared/artifacts/index.ts';
import { makeBuiltinModel } from '../../support/train-model/make-builtin-model.ts';

describe('built-in model', () => {
  const words = readFileSync(new URL('../../support/train-model/words.txt', import.meta.url), 'utf8');
  const files = makeBuiltinModel(builtinText() + words);

  it.each(Object.keys(files))('has the %s that a fresh run makes', async (name) => {
    await expect(files[name]).toMatchFileSnapshot(join(builtinModelPath(), name));
  });

  it('consists of the text and the files made from it', () => {
    expect(readdirSync(builtinModelPath()).sort()).toEqual([...Object.keys(files), 'text.txt'].sort());
  });

  it('recites whole English paragraphs', () => {
    const text = builtinText();
    expect(text.length).toBeGreaterThan(4000);
    expect(text.length).toBeLessThan(8000);
    for (const paragraph of text.trim().split('\n\n')) expect(paragraph).toMatch(/^[A-Z][^\n]*[.]$/);
  });
});
