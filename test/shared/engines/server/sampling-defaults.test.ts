import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { SamplingDefaults } from '../../../../shared/discovery/index.ts';
import {
  samplingDefaultsOf,
  samplingSourceIn,
  samplingSourceOf,
} from '../../../../shared/engines/server/sampling-defaults.ts';
import type { DefaultSampling } from '../../../../shared/tokens/index.ts';

const OF_MODEL: DefaultSampling = { temperature: 0.6, top_k: 20, max_tokens: 64 };
const FOLDER = mkdtempSync(join(tmpdir(), 'stator-defaults-'));

beforeAll(() => {
  writeFileSync(join(FOLDER, 'generation_config.json'), '{"temperature":0.3,"max_new_tokens":8}');
});
afterAll(() => rmSync(FOLDER, { recursive: true }));

/** Opens folders only. */
async function openFolder(name: string): Promise<string | undefined> {
  return existsSync(name) ? name : undefined;
}

function filledIn(kind: 'vllm' | 'sglang' | 'trtllm', flags: readonly string[]): Promise<SamplingDefaults> {
  return samplingDefaultsOf(OF_MODEL, samplingSourceIn(flags, kind), {}, openFolder);
}

describe('what is filled in for an engine', () => {
  it.each<['vllm' | 'sglang' | 'trtllm', readonly string[], SamplingDefaults]>([
    ['vllm', [], OF_MODEL],
    ['vllm', ['--generation-config', 'auto'], OF_MODEL],
    ['vllm', ['--generation-config=vllm'], {}],
    ['vllm', ['--generation_config', 'vllm'], {}],
    ['vllm', ['--generation-config', FOLDER], { temperature: 0.3, max_tokens: 8, max_tokens_limit: 8 }],
    [
      'vllm',
      ['--override-generation-config', '{"temperature":1,"top_p":0.5}'],
      { ...OF_MODEL, temperature: 1, top_p: 0.5 },
    ],
    [
      'vllm',
      ['--override-generation-config={"max_new_tokens":5}'],
      { ...OF_MODEL, max_tokens: 5, max_tokens_limit: 5 },
    ],
    ['vllm', ['--generation-config=vllm', '--override-generation-config.top_k=0'], { top_k: -1 }],
    [
      'vllm',
      ['--override-generation-config.top-k', '7', '--override_generation_config.temperature', '1'],
      { ...OF_MODEL, top_k: 7, temperature: 1 },
    ],
    ['sglang', [], OF_MODEL],
    ['sglang', ['--sampling-defaults', 'model'], OF_MODEL],
    ['sglang', ['--sampling-defaults=openai'], {}],
    // The engine fills these in by itself, but for the number of tokens, which every request has.
    ['sglang', ['--preferred-sampling-params={"temperature":0.1,"max_new_tokens":5}'], { top_k: 20, max_tokens: 5 }],
    ['trtllm', ['--generation-config=vllm'], OF_MODEL],
  ])('%s %j', async (kind, flags, expected) => {
    expect(await filledIn(kind, flags)).toEqual(expected);
  });

  it.each<['vllm' | 'sglang', readonly string[], RegExp]>([
    [
      'vllm',
      ['--generation-config', '/no/such/folder'],
      /--generation-config \/no\/such\/folder is not on this machine/,
    ],
    ['vllm', ['--generation-config', tmpdir()], /generation_config\.json: no such file/],
    [
      'vllm',
      ['--override-generation-config={"temperature":"hot"}'],
      /--override-generation-config: temperature is "hot"; write a number/,
    ],
    [
      'vllm',
      ['--override-generation-config.top_p', '2'],
      /--override-generation-config: top_p is 2; write a number above 0, up to 1/,
    ],
    [
      'sglang',
      ['--preferred-sampling-params={"max_new_tokens":0}'],
      /--preferred-sampling-params: max_new_tokens is 0; write a whole number/,
    ],
  ])('is refused by name: %s %j', async (kind, flags, message) => {
    await expect(filledIn(kind, flags)).rejects.toThrow(message);
  });

  it('is what a server that was attached says of itself, and the number of tokens alone where it samples by its file', async () => {
    const said = { config: 'none', override: { temperature: 0.9 }, own: {} } as const;
    const attached = samplingSourceOf(undefined, 'vllm', { samplingSource: said });
    expect(await samplingDefaultsOf(OF_MODEL, attached, {}, openFolder)).toEqual({ temperature: 0.9 });
    const silent = samplingSourceOf(undefined, 'vllm', {});
    expect(await samplingDefaultsOf(OF_MODEL, silent, { fillsInSampling: true }, openFolder)).toEqual({
      max_tokens: 64,
    });
  });

  it("is taken from the command line, before the server's answer", async () => {
    const said = { config: 'none', override: {}, own: {} } as const;
    const source = samplingSourceOf([], 'vllm', { samplingSource: said });
    expect(await samplingDefaultsOf(OF_MODEL, source, {}, openFolder)).toEqual(OF_MODEL);
  });
});
