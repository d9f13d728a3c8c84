import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { waitUntil } from '../../../support/index.ts';
import { KserveClient } from '../../../support/kserve/kserve-client.ts';
import { type ScriptedKserve, startScriptedKserve } from '../../../support/kserve/scripted-server.ts';

const TEXT = {
  model_name: 'text',
  inputs: [{ name: 'text_input', datatype: 'BYTES', shape: ['1'], contents: { bytes_contents: ['aGk='] } }],
};

describe('a model whose only worker has left', () => {
  let models: ScriptedKserve;
  let client: KserveClient;

  beforeAll(async () => {
    models = await startScriptedKserve({ rememberedMs: Number.POSITIVE_INFINITY });
    client = new KserveClient(`127.0.0.1:${models.server.port}`);
    await models.remove('text');
    await waitUntil(async () => (await client.ask('ModelReady', [{ name: 'text' }])).responses[0]?.ready !== true);
  });
  afterAll(async () => {
    client.close();
    await models.close();
  });

  it('is unavailable, and counts as that', async () => {
    expect(await client.ask('ModelInfer', [TEXT])).toEqual({
      code: 14,
      message: 'model temporarily unavailable',
      retryMs: expect.stringMatching(/^\d+$/),
      responses: [],
    });
    expect(await client.ask('ModelStreamInfer', [TEXT, TEXT])).toMatchObject({ code: 14, responses: [] });
    const text = await models.metrics.registry.render();
    expect(text).not.toContain('error_type="validation"');
    expect(text).toMatch(/requests_total\{model="text".*error_type="unavailable"\} 2/);
  });

  it('stands in the index with the reason, while others are served', async () => {
    const { responses } = await client.ask('RepositoryIndex', [{}]);
    const listed = (responses[0]?.models as { name: string; state: string; reason: string }[]) ?? [];
    expect(listed.find(({ name }) => name === 'text')).toMatchObject({
      state: 'UNAVAILABLE',
      reason: expect.any(String),
    });
    expect(await client.ask('ServerReady', [{}])).toMatchObject({ responses: [{ ready: true }] });
  });
});
