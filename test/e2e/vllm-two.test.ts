import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  openChat,
  postJson,
  readChat,
  type SpawnedProcess,
  type StatorProcess,
  useFleet,
  waitUntil,
} from '../support/index.ts';
import { installedVllms, vllmCommand } from '../support/tools/vllm.ts';

const folder = (await installedVllms()).at(-1); // the newest
const why = folder === undefined ? ' (not run: vLLM is not installed here; npm run test:vllm installs it)' : '';
const START_MS_MAX = 600_000;
const TEST_MS_MAX = 180_000;

const TOPICS = ['ants', 'bread', 'clocks', 'dunes', 'elms', 'fog'];
const chat = (topic: string, more: object = {}) => ({
  model: 'pair',
  messages: [{ role: 'user', content: `Tell me about ${topic}. `.repeat(40) }],
  max_tokens: 8,
  temperature: 0,
  ...more,
});
const LONG_TOKENS = 1500;
/** Some seconds of work. */
const long = (topic: string) =>
  chat(topic, { max_tokens: LONG_TOKENS, ignore_eos: true, stream_options: { include_usage: true } });

interface One {
  readonly process: SpawnedProcess;
  readonly status: string;
}

describe.skipIf(folder === undefined)(`two real vLLMs that start together on one machine${why}`, () => {
  const fleet = useFleet();
  let frontend: StatorProcess;
  let workers: readonly One[] = [];

  beforeAll(async () => {
    frontend = await fleet.frontend(['--router-mode=kv']);
    const started = [spawnWorker(), spawnWorker()];
    workers = await Promise.all(
      started.map(async (process) => {
        const [, port] = await process.waitForOutput(/status server is up port=(\d+)/);
        await process.waitForOutput(/worker is ready/, START_MS_MAX);
        return { process, status: `http://127.0.0.1:${port}` };
      }),
    );
    await fleet.untilWorkers(frontend, 2, 'pair');
  }, START_MS_MAX + 30_000);

  afterAll(() => {
    for (const { process } of workers) process.signal('SIGTERM');
  });

  function spawnWorker(): SpawnedProcess {
    const size = ['--block-size=32', '--num-gpu-blocks-override=512', '--max-num-seqs=8', '--max-model-len=4096'];
    return fleet.spawn(
      [
        'worker',
        '--engine=vllm',
        `--engine-command=${vllmCommand(folder ?? '')}`,
        `--model=${join(folder ?? '', 'model')}`,
        '--served-model-name=pair',
        ...size,
        '--max-num-batched-tokens=4096',
        '--',
        // The bfloat16 kernels of CPUs need instructions that virtual machines may hide.
        '--enforce-eager',
        '--dtype=float32',
      ],
      {
        DYN_DISCOVERY_BACKEND: 'file',
        DYN_FILE_KV: fleet.fileKv,
        DYN_TCP_RPC_HOST: '127.0.0.1',
        DYN_EVENT_PLANE_HOST: '127.0.0.1',
        DYN_SYSTEM_HOST: '127.0.0.1',
        DYN_SYSTEM_PORT: '0',
        DYN_GRACEFUL_SHUTDOWN_GRACE_PERIOD_SECS: '1',
        HF_HUB_OFFLINE: '1',
        VLLM_NO_USAGE_STATS: '1',
        VLLM_CPU_KVCACHE_SPACE: '1',
        OMP_NUM_THREADS: '1',
      },
    );
  }

  const stored = (): Promise<number> =>
    frontend.metric('dynamo_component_kv_cache_events_applied', 'event_type="stored"', 'status="ok"');
  const inFlight = (): Promise<readonly number[]> =>
    Promise.all(workers.map(({ status }) => metric(status, 'dynamo_component_inflight_requests')));
  const running = (): Promise<readonly number[]> =>
    Promise.all(workers.map(({ status }) => metric(status, 'vllm:num_requests_running')));

  it('has each engine tell of its own blocks, by which every prompt finds its own again', {
    timeout: TEST_MS_MAX,
  }, async () => {
    const cached: number[] = [];
    for (const topic of TOPICS) {
      const before = await stored();
      expect(await readChat(frontend.url, chat(topic))).toMatchObject({ finishReason: 'length', isDone: true });
      await waitUntil(async () => (await stored()) > before);
      const again = (await (await postJson(`${frontend.url}/v1/chat/completions`, chat(topic))).json()) as {
        readonly usage: { readonly prompt_tokens_details: { readonly cached_tokens: number } };
      };
      cached.push(again.usage.prompt_tokens_details.cached_tokens);
    }
    for (const tokens of cached) expect(tokens).toBeGreaterThanOrEqual(64);
    const served = await Promise.all(workers.map(({ status }) => metric(status, 'vllm:prompt_tokens_total')));
    for (const tokens of served) expect(tokens).toBeGreaterThan(0); // both have had their share
  });

  it('drops what clients leave, on whichever engine it is', { timeout: TEST_MS_MAX }, async () => {
    const streams = await Promise.all(TOPICS.slice(0, 4).map((topic) => openChat(frontend.url, long(topic))));
    await Promise.all(streams.map((stream) => stream.untilDeltas(2)));
    for (const stream of streams) stream.leave();
    await waitUntil(async () => [...(await inFlight()), ...(await running())].every((count) => count === 0));
    expect(await readChat(frontend.url, chat('gulls'))).toMatchObject({ finishReason: 'length' });
  });

  it('drains: the streams of a worker that stops go on at the other one, with every token', {
    timeout: TEST_MS_MAX,
  }, async () => {
    const streams = await Promise.all(TOPICS.slice(0, 4).map((topic) => openChat(frontend.url, long(topic))));
    await Promise.all(streams.map((stream) => stream.untilDeltas(3)));
    const counts = await inFlight();
    expect(counts[0] ?? 0).toBeGreaterThan(0); // the prompts of each were routed to it before
    workers[0]?.process.signal('SIGTERM');
    for (const stream of streams) {
      const answer = await stream.answer;
      expect(answer).toMatchObject({ finishReason: 'length', error: undefined, isDone: true });
      expect(answer.usage?.completion_tokens).toBe(LONG_TOKENS);
    }
    expect(await workers[0]?.process.exited).toBe(0);
    expect(await frontend.metric('dynamo_frontend_model_migration_total')).toBeGreaterThanOrEqual(counts[0] ?? 1);
    await fleet.untilWorkers(frontend, 1, 'pair');
    expect(await readChat(frontend.url, chat('herons'))).toMatchObject({ finishReason: 'length' });
  });
});

async function metric(url: string, name: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  const line = text.split('\n').find((each) => each.startsWith(`${name}{`)) ?? '';
  return Number(line.slice(line.lastIndexOf(' ') + 1));
}
