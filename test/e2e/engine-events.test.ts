import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it } from 'vitest';
import { postJson, type StatorProcess, useFleet, waitUntil } from '../support/index.ts';

const STAND_IN = fileURLToPath(new URL('../shared/engines/server/releases/release-engine.mjs', import.meta.url));
const MODEL = fileURLToPath(new URL('../../shared/artifacts/builtin-model', import.meta.url));

/** vLLM 0.20.2 has no route that says where its KV events are. */
const ENGINE = [
  '--engine=vllm',
  `--engine-command=${process.execPath} ${STAND_IN}`,
  `--model=${MODEL}`,
  '--block-size=16',
];
const OLD = { FAKE_RELEASE: 'vllm-0.20.2' };

describe('KV events of engines that workers start', () => {
  const fleet = useFleet();
  let frontend: StatorProcess;

  beforeAll(async () => {
    frontend = await fleet.frontend(['--router-mode=kv']);
  });

  /** Tokens of the prompt that the engine had already. */
  async function ask(model: string, content: string): Promise<number> {
    const body = { model, messages: [{ role: 'user', content }], max_tokens: 2 };
    const answer = await (await postJson(`${frontend.url}/v1/chat/completions`, body)).json();
    return (answer as { usage: { prompt_tokens_details: { cached_tokens: number } } }).usage.prompt_tokens_details
      .cached_tokens;
  }
  const stored = (): Promise<number> =>
    frontend.metric('dynamo_component_kv_cache_events_applied', 'event_type="stored"', 'status="ok"');

  it('lead a prompt to the worker that has it, also of a release that does not say where they are', async () => {
    await Promise.all([1, 2].map(() => fleet.worker([...ENGINE, '--served-model-name=told'], OLD)));
    await fleet.untilWorkers(frontend, 2, 'told');
    const prompts = Array.from({ length: 8 }, (_, at) => `${at} is the number of this story. `.repeat(12));
    for (const [at, prompt] of prompts.entries()) {
      expect(await ask('told', prompt)).toBeLessThan(64); // the beginning of the template at most
      await waitUntil(async () => (await stored()) > at);
    }
    for (const prompt of prompts) expect(await ask('told', prompt)).toBeGreaterThanOrEqual(64);
  });

  it('are missed where none come: the worker serves, warns, and shows it, as the frontend does', async () => {
    const worker = await fleet.worker([...ENGINE, '--served-model-name=mute'], { ...OLD, FAKE_SILENT: '1' });
    await fleet.untilWorkers(frontend, 1, 'mute');
    await ask('mute', 'A prompt of some blocks. '.repeat(20));
    await waitUntil(async () => (await (await fetch(`${worker.url}/health`)).text()).includes('"status":"missing"'));
    expect((await fetch(`${worker.url}/health`)).status).toBe(200);
    expect(await worker.metric('stator_worker_kv_events_missing')).toBe(1);
    expect(worker.stdout() + worker.stderr()).toMatch(/WARN engine: no KV events arrive from the engine/);
    await waitUntil(async () =>
      (await (await fetch(`${frontend.url}/health`)).text()).includes('"kv_events":"missing"'),
    );
    worker.signal('SIGTERM');
    await worker.exited;
  });
});
