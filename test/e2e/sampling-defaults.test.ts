import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RecordedVllm } from '../shared/engines/vllm/recorded-vllm.ts';
import { postJson, type StatorProcess, useFleet } from '../support/index.ts';

const BUILTIN = fileURLToPath(new URL('../../shared/artifacts/builtin-model', import.meta.url));
const GENERATE = '/inference/v1/generate';
const SAID = { temperature: 0.5, top_k: 7, repetition_penalty: 1.1, max_new_tokens: 6 };
const MESSAGES = [{ role: 'user', content: 'Hello' }];

/** Each dialect with a body that says nothing of sampling. */
const DIALECTS = [
  ['/v1/chat/completions', { messages: MESSAGES }],
  ['/v1/chat/completions', { messages: MESSAGES, temperature: null, top_p: null, max_tokens: null }],
  ['/v1/completions', { prompt: 'Hello' }],
  ['/v1/responses', { input: 'Hello' }],
] as const;

describe('the sampling of a model that an attached vLLM serves', () => {
  const fleet = useFleet();
  const folder = mkdtempSync(join(tmpdir(), 'stator-sampling-'));
  let frontend: StatorProcess;
  let vllm: RecordedVllm;

  const askedFor = async (path: string, body: Readonly<Record<string, unknown>>) => {
    const { status } = await postJson(`${frontend.url}${path}`, { model: 'tiny', ...body });
    expect(status).toBe(200);
    return vllm.of(`POST ${GENERATE}`).at(-1)?.body.sampling_params;
  };

  beforeAll(async () => {
    cpSync(BUILTIN, folder, { recursive: true });
    writeFileSync(join(folder, 'generation_config.json'), JSON.stringify(SAID));
    vllm = await new RecordedVllm().start();
    vllm.next = 'generate stream';
    vllm.json('GET /kv_event_sources', {});
    const model_config = { generation_config: 'auto', override_generation_config: { top_k: 9 } };
    vllm.json('GET /server_info', { vllm_config: { model_config } });
    frontend = await fleet.frontend();
    await fleet.worker(['--engine=vllm', `--engine-url=${vllm.url}`, `--model-path=${folder}`, '--model=tiny']);
    await fleet.untilWorkers(frontend, 1, 'tiny');
  });

  afterAll(async () => {
    await vllm.stop();
    rmSync(folder, { recursive: true });
  });

  it.each(DIALECTS)('is what its files and its server say where %s says nothing', async (path, body) => {
    const expected = { temperature: 0.5, top_k: 9, repetition_penalty: 1.1, max_tokens: 6 };
    expect(await askedFor(path, body)).toMatchObject(expected);
  });

  it('gives way to the client', async () => {
    const said = { temperature: 1, top_k: 3, max_tokens: 8 };
    const asked = await askedFor('/v1/chat/completions', { messages: MESSAGES, ...said });
    expect(asked).toMatchObject({ ...said, repetition_penalty: 1.1 });
  });
});
