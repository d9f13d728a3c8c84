import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import { postJson, runStator, useFleet } from '../support/index.ts';

const LLAMA = fileURLToPath(new URL('../fixtures/router/models/llama-3.1-8b', import.meta.url));
const AIC = ['--router-prefill-load-model=aic', '--aic-backend=vllm', `--aic-model-path=${LLAMA}`];
const folder = mkdtempSync(join(tmpdir(), 'stator-router-files-'));
const keyFile = join(folder, 'key');
writeFileSync(keyFile, Buffer.alloc(32, 7));
const KEYED = [
  '--router-tracking-hash=keyed-xxh3-v1',
  `--router-tracking-key-file=${keyFile}`,
  '--router-tracking-key-id=1',
];
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe('what the settings of a router name', () => {
  const fleet = useFleet();

  it.each([
    ['frontend', '--router-mode=kv', '--http-port=0', '--discovery-backend=mem'],
    ['router', '--endpoint=dynamo.backend.generate', '--discovery-backend=mem'],
    ['router', '--service=selection', '--service-port=0'],
  ])('stops the start of stator %s when the estimate does not know it', async (...argv) => {
    const { code, stderr } = await runStator([...argv, ...AIC, '--aic-system=v100']);
    expect(code).toBe(2);
    expect(stderr).toContain('stator: --aic-system "v100" is not known; allowed: a100_sxm, ');
  });

  it('serves with predicted prefills and keyed names', async () => {
    const flags = ['--router-mode=kv', '--router-replica-sync', ...AIC, '--aic-system=h100_sxm', ...KEYED];
    const [frontend] = await Promise.all([fleet.frontend(flags), fleet.worker(['--block-size=16'])]);
    await fleet.untilWorkers(frontend, 1);
    const body = { model: 'stator-mini', max_tokens: 4, messages: [{ role: 'user', content: 'hello '.repeat(100) }] };
    const answer = await postJson(`${frontend.url}/v1/chat/completions`, body);
    expect(answer.status).toBe(200);
    expect(await frontend.metric('dynamo_frontend_worker_active_prefill_tokens')).toBe(0); // given back at the first token
  });
});
