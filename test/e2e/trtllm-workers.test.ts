import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { askAbout, postJson, readChat, type StatorProcess, untilHeld, useFleet, waitUntil } from '../support/index.ts';

const FAKE = fileURLToPath(new URL('../shared/engines/trtllm/fake-trtllm.mjs', import.meta.url));
const MODEL_FOLDER = fileURLToPath(new URL('../../shared/artifacts/builtin-model', import.meta.url));
const ENGINE = ['--engine=trtllm', `--engine-command=${process.execPath} ${FAKE}`, `--model=${MODEL_FOLDER}`];
const NAMED = [...ENGINE, '--served-model-name=served'];

interface Seen {
  readonly args: readonly string[];
  readonly options: Readonly<Record<string, unknown>>;
  readonly received: readonly string[];
}

async function engineOf(worker: StatorProcess): Promise<Seen> {
  const [, port] = await worker.waitForOutput(/--port (\d+)/);
  return (await (await fetch(`http://127.0.0.1:${port}/received`)).json()) as Seen;
}

describe('workers that start TensorRT-LLM', () => {
  const fleet = useFleet();

  it('serve by ids, and get the prompts that they have cached, as their engines tell when they are asked', async () => {
    const [frontend, worker] = await Promise.all([
      fleet.frontend(['--router-mode=kv']),
      fleet.worker(NAMED),
      fleet.worker(NAMED),
    ]);
    await fleet.untilWorkers(frontend, 2, 'served');
    const chat = { model: 'served', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 3 };
    expect(await readChat(frontend.url, chat)).toMatchObject({ finishReason: 'length', isDone: true });
    for (const topic of ['once more', 'of something else']) {
      const first = await askAbout(frontend, topic, 60, 'served');
      expect(await untilHeld(frontend, topic, 60, 'served')).toEqual([first.worker]);
      for (let turn = 0; turn < 4; turn++) {
        const again = await askAbout(frontend, topic, 60, 'served');
        expect(again.worker).toBe(first.worker);
        expect(again.cached).toBeGreaterThan(again.prompt - 64);
      }
    }
    const { args, options } = await engineOf(worker);
    expect(args.slice(0, 3)).toEqual([MODEL_FOLDER, '--host', '127.0.0.1']);
    expect(args).not.toContain('--max_batch_size'); // nobody gave it
    expect(options).toMatchObject({ kv_cache_config: { enable_block_reuse: true, event_buffer_max_size: 65536 } });
    await waitUntil(async () => (await (await fetch(`${worker.url}/metrics`)).text()).includes('trtllm_'));
    const text = await (await fetch(`${worker.url}/metrics`)).text();
    expect(text).toMatch(/trtllm_kv_cache_utilization\{model_name="m",dynamo_namespace="dynamo"/);
    expect(text).not.toContain('python_info');
  });

  it('compute prompts for each other: what one gives reaches the other to the last digit', async () => {
    const role = (mode: string) => [...NAMED, '--namespace=split', `--disaggregation-mode=${mode}`];
    const [frontend, prefill, decode] = await Promise.all([
      fleet.frontend(['--namespace=split']),
      fleet.worker(role('prefill')),
      fleet.worker(role('decode')),
    ]);
    await fleet.untilWorkers(frontend, 2, 'served');
    const body = { model: 'served', prompt: 'What one computes, the other continues', max_tokens: 4 };
    const answer = await postJson(`${frontend.url}/v1/completions`, body);
    expect(await answer.json()).toMatchObject({
      choices: [{ finish_reason: 'length' }],
      usage: { completion_tokens: 4 },
    });
    const sent = async (worker: StatorProcess) => (await engineOf(worker)).received.at(-1);
    expect(await sent(prefill)).toContain('"disaggregated_params":{"request_type":"context_only"}');
    expect(await sent(decode)).toMatch(/"request_type":"generation_only".*"ctx_request_id":9007199254740993123/);
    expect((await engineOf(prefill)).options).toMatchObject({ cache_transceiver_config: { backend: 'DEFAULT' } });
  });

  it('take pictures with --enable-multimodal, each at a home of its own, and text as ever', async () => {
    const sees = [...NAMED, '--namespace=eyes', '--enable-multimodal'];
    const [frontend, ...workers] = await Promise.all([
      fleet.frontend(['--namespace=eyes', '--router-mode=kv']),
      fleet.worker(sees),
      fleet.worker(sees),
    ]);
    await fleet.untilWorkers(frontend, 2, 'served');
    const urlOf = (picture: number): string =>
      `data:image/png;base64,${Buffer.from(`picture ${picture}`).toString('base64')}`;
    const pictures = Array.from({ length: 12 }, (_, picture) => urlOf(picture));
    for (const url of [...pictures, ...pictures]) {
      const content = [{ type: 'image_url', image_url: { url } }];
      const body = { model: 'served', messages: [{ role: 'user', content }] };
      const answer = await postJson(`${frontend.url}/v1/chat/completions`, body);
      expect(await answer.json()).toMatchObject({ choices: [{ message: { content: 'a cat' } }] });
    }
    const engines = await Promise.all(workers.map(engineOf));
    const timesAt = engines.map(({ received }) =>
      pictures.map((url) => received.filter((text) => text.includes(`"${url}"`)).length),
    );
    for (const times of timesAt) expect(new Set(times)).toEqual(new Set([0, 2]));
    expect((await askAbout(frontend, 'text', 20, 'served')).cached).toBe(0);
  });

  it('say what is wrong', async () => {
    const frontend = await fleet.frontend(['--namespace=odd']);
    await fleet.worker([...NAMED, '--namespace=odd', '--block-size=16']);
    await fleet.untilWorkers(frontend, 1, 'served');
    const refusal = async (fields: object) => {
      const messages = [{ role: 'user', content: 'Hello' }];
      const answer = await postJson(`${frontend.url}/v1/chat/completions`, { model: 'served', messages, ...fields });
      const { error } = (await answer.json()) as { readonly error: { readonly message: string } };
      return [answer.status, error.message];
    };
    expect(await refusal({ logprobs: true, top_logprobs: 2 })).toEqual([
      400,
      'top_logprobs is not supported by TensorRT-LLM',
    ]);
    expect(await refusal({ nvext: { cache_salt: 'a' } })).toEqual([400, 'cache_salt is not supported by TensorRT-LLM']);
    const missing = fleet.spawn([
      'worker',
      '--engine=trtllm',
      '--engine-command=/no/such/trtllm-serve',
      `--model=${MODEL_FOLDER}`,
    ]);
    expect(await missing.exited).toBe(1);
    expect(missing.stderr()).toContain('pip install tensorrt-llm');
  });
});
