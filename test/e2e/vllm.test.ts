import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { postJson, readChat, type SpawnedProcess, type StatorProcess, useFleet, waitUntil } from '../support/index.ts';
import { makeLoraAdapter } from '../support/lora-adapter.ts';
import { type S3Server, startS3Server } from '../support/s3-server.ts';
import { installedVllms, vllmCommand, vllmName } from '../support/tools/vllm.ts';

const installed = await installedVllms();
const NONE = 'vLLM (not run: it is not installed here; npm run test:vllm installs it)';
/** One suite a release, also where none can be played. */
const releases = installed.length === 0 ? [[NONE, '']] : installed.map((folder) => [vllmName(folder), folder]);
const START_MS_MAX = 300_000;

/** The bfloat16 kernels of CPUs need instructions that virtual machines may hide. */
const SMALL = ['--enforce-eager', '--dtype=float32'];
const STORY = 'Once upon a time there was a rather long prompt, long enough to fill several blocks. '.repeat(12);
const CHAT = { model: 'live', messages: [{ role: 'user', content: STORY }], max_tokens: 8, temperature: 0 };
interface Answer {
  readonly usage: { readonly prompt_tokens_details: { readonly cached_tokens: number } };
}

/** Some seconds of work. */
const LONG = { ...CHAT, max_tokens: 3500, ignore_eos: true };

describe.skipIf(installed.length === 0).each(releases)(
  'a real %s behind worker, KV router and frontend',
  (_, folder = '') => {
    const fleet = useFleet();
    let frontend: StatorProcess;
    let worker: SpawnedProcess;
    let bucket: S3Server;
    let status = '';
    let control = '';

    beforeAll(async () => {
      bucket = await startS3Server();
      frontend = await fleet.frontend(['--router-mode=kv']);
      worker = fleet.spawn(
        [
          'worker',
          '--engine=vllm',
          `--engine-command=${vllmCommand(folder)}`,
          `--model=${join(folder, 'model')}`,
          '--served-model-name=live',
          '--block-size=32',
          '--num-gpu-blocks-override=512',
          '--max-num-seqs=8',
          '--max-num-batched-tokens=4096',
          '--max-model-len=4096',
          '--',
          ...SMALL,
        ],
        {
          DYN_DISCOVERY_BACKEND: 'file',
          DYN_FILE_KV: fleet.fileKv,
          DYN_TCP_RPC_HOST: '127.0.0.1',
          DYN_EVENT_PLANE_HOST: '127.0.0.1',
          DYN_SYSTEM_HOST: '127.0.0.1',
          DYN_SYSTEM_PORT: '0',
          STATOR_CONTROL_PORT: '0',
          DYN_LORA_ENABLED: 'true',
          DYN_LORA_PATH: join(fleet.temporary, 'adapters'),
          AWS_ENDPOINT: bucket.url,
          AWS_ALLOW_HTTP: 'true',
          AWS_ACCESS_KEY_ID: 'key',
          AWS_SECRET_ACCESS_KEY: 'secret',
          HF_HUB_OFFLINE: '1',
          VLLM_NO_USAGE_STATS: '1',
          VLLM_CPU_KVCACHE_SPACE: '1',
          OMP_NUM_THREADS: '1',
        },
      );
      const [, port] = await worker.waitForOutput(/status server is up port=(\d+)/);
      status = `http://127.0.0.1:${port}`;
      const [, controlPort] = await worker.waitForOutput(/control server is up port=(\d+)/);
      control = `http://127.0.0.1:${controlPort}`;
      await worker.waitForOutput(/worker is ready/, START_MS_MAX);
      await fleet.untilWorkers(frontend, 1, 'live');
    }, START_MS_MAX + 30_000);

    afterAll(async () => {
      worker?.signal('SIGTERM');
      await bucket?.stop();
    });

    const untilInFlight = (count: number): Promise<true> =>
      waitUntil(async () => (await metric(status, 'dynamo_component_inflight_requests')) === count, { pollMs: 2 });
    const applied = (event: string): Promise<number> =>
      frontend.metric('dynamo_component_kv_cache_events_applied', `event_type="${event}"`, 'status="ok"');
    const routed = (): Promise<number> =>
      frontend.metric('dynamo_component_router_kv_selected_cached_prefix_tokens_total', 'model="live"');

    /** Blocks of the chat that the worker is known to hold for that model. */
    const heldBlocks = async (model: string): Promise<number> => {
      const response = await postJson(`${frontend.url}/router/explain`, { ...CHAT, model });
      const { candidates } = (await response.json()) as {
        readonly candidates: readonly { readonly overlap: { readonly device: number } }[];
      };
      return candidates[0]?.overlap.device ?? 0;
    };

    it('answers, and its own KV events raise the overlap of the second request to what it then reuses', async () => {
      const ask = async (): Promise<number> => {
        const answer = (await (await postJson(`${frontend.url}/v1/chat/completions`, CHAT)).json()) as Answer;
        return answer.usage.prompt_tokens_details.cached_tokens;
      };
      expect(await ask()).toBe(0);
      expect(await routed()).toBe(0);
      await waitUntil(async () => (await applied('stored')) > 0);
      const reused = await ask();
      expect(reused).toBeGreaterThanOrEqual(64);
      expect(await routed()).toBe(reused);
    });

    it('gives the same tokens streamed and whole', async () => {
      const streamed = await readChat(frontend.url, CHAT);
      const whole = (await (await postJson(`${frontend.url}/v1/chat/completions`, CHAT)).json()) as {
        readonly choices: readonly [{ readonly message: { readonly content: string } }];
      };
      expect(streamed.text).toBe(whole.choices[0].message.content);
      expect(streamed).toMatchObject({ finishReason: 'length', isDone: true });
    });

    it('drops a request whose client leaves, and serves on', async () => {
      const leaving = new AbortController();
      const left = postJson(`${frontend.url}/v1/chat/completions`, LONG, { signal: leaving.signal });
      left.catch(() => undefined); // looked at below
      await untilInFlight(1);
      leaving.abort();
      await expect(left).rejects.toThrow();
      await waitUntil(async () => (await metric(status, 'dynamo_component_cancellation_total')) === 1);
      expect(await readChat(frontend.url, CHAT)).toMatchObject({ finishReason: 'length' });
      await waitUntil(async () => (await metric(status, 'vllm:num_requests_running')) === 0);
    });

    it('loads an adapter out of a bucket, which answers otherwise than its base model, and unloads it', async () => {
      const shape = JSON.parse(readFileSync(join(folder, 'model', 'config.json'), 'utf8'));
      for (const [name, content] of makeLoraAdapter(shape)) bucket.objects.set(`models/tuned/${name}`, content);
      const source = { uri: 's3://models/tuned' };
      expect((await postJson(`${control}/v1/loras`, { lora_name: 'tuned', source })).status).toBe(200);
      await fleet.untilWorkers(frontend, 1, 'tuned');
      const tuned = await readChat(frontend.url, { ...CHAT, model: 'tuned' });
      expect(tuned).toMatchObject({ finishReason: 'length', isDone: true });
      expect(tuned.text).not.toBe((await readChat(frontend.url, CHAT)).text);
      await waitUntil(async () => (await heldBlocks('tuned')) >= 2, { what: "the adapter's blocks in the index" });
      const again = await postJson(`${frontend.url}/v1/chat/completions`, { ...CHAT, model: 'tuned' });
      const { usage } = (await again.json()) as Answer;
      expect(usage.prompt_tokens_details.cached_tokens).toBe(32 * (await heldBlocks('tuned')));
      expect((await fetch(`${control}/v1/loras/tuned`, { method: 'DELETE' })).status).toBe(200);
      await fleet.untilWorkers(frontend, 0, 'tuned');
    });

    it('empties its cache when told to, and the router knows', async () => {
      const before = await routed();
      const known = await applied('cleared');
      const cleared = await fetch(`${control}/engine/control/clear_kv_blocks`, { method: 'POST' });
      expect(await cleared.json()).toMatchObject({ status: 'success' });
      await waitUntil(async () => (await applied('cleared')) > known);
      await readChat(frontend.url, CHAT);
      expect(await routed()).toBe(before);
    });

    it('takes its worker along when its core is killed in the middle of a request', async () => {
      const asked = postJson(`${frontend.url}/v1/chat/completions`, LONG);
      await untilInFlight(1);
      process.kill(pidOf('VLLM::EngineCore', worker.pid), 'SIGKILL');
      expect((await asked).status).toBe(503); // nobody is left to go on with it
      expect(await worker.exited).toBe(1);
      await fleet.untilWorkers(frontend, 0, 'live');
    });
  },
);

/** It takes half a minute of a core, for which the plain run has no room. */
const isAskedFor = installed.length > 0 && process.env.STATOR_TEST_VLLM !== undefined;

describe.skipIf(!isAskedFor)('a real vLLM for embeddings (npm run test:vllm)', () => {
  const folder = installed.at(-1) ?? '';
  const fleet = useFleet();

  it('is started for them, takes what clients send, and counts it', { timeout: START_MS_MAX + 30_000 }, async () => {
    const flags = ['--engine=vllm', '--embedding-worker', `--engine-command=${vllmCommand(folder)}`];
    const model = [`--model=${join(folder, 'model')}`, '--served-model-name=vectors', '--max-model-len=512'];
    const here = { DYN_FILE_KV: fleet.fileKv, DYN_TCP_RPC_HOST: '127.0.0.1', DYN_EVENT_PLANE_HOST: '127.0.0.1' };
    const quiet = { HF_HUB_OFFLINE: '1', VLLM_NO_USAGE_STATS: '1', VLLM_CPU_KVCACHE_SPACE: '1', OMP_NUM_THREADS: '1' };
    const args = ['worker', ...flags, ...model, '--discovery-backend=file', '--', '--convert', 'embed', ...SMALL];
    const worker = fleet.spawn(args, { ...here, ...quiet });
    const frontend = await fleet.frontend();
    await worker.waitForOutput(/worker is ready/, START_MS_MAX);
    await fleet.untilWorkers(frontend, 1, 'vectors');
    const embed = async (body: object) => {
      const answer = await postJson(`${frontend.url}/v1/embeddings`, { model: 'vectors', ...body });
      return (await answer.json()) as {
        readonly data: readonly { readonly embedding: readonly number[] | string }[];
        readonly usage: { readonly prompt_tokens: number };
      };
    };
    const words = await embed({ input: ['the same', 'the same', 'another'] });
    expect(words.data[0]?.embedding).toEqual(words.data[1]?.embedding);
    expect(words.data[0]?.embedding).not.toEqual(words.data[2]?.embedding);
    const ids = await embed({ input: [[1, 2], [3]], encoding_format: 'base64' });
    expect(ids.data.map(({ embedding }) => typeof embedding)).toEqual(['string', 'string']);
    expect(ids.usage.prompt_tokens).toBe(3);
    const chat = await postJson(`${frontend.url}/v1/chat/completions`, { ...CHAT, model: 'vectors' });
    expect(chat.status).toBe(404);
  });
});

async function metric(url: string, name: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  const line = text.split('\n').find((each) => each.startsWith(`${name}{`)) ?? '';
  return Number(line.slice(line.lastIndexOf(' ') + 1));
}

/** The process named `name` among those that `ancestor` started. */
function pidOf(name: string, ancestor: number): number {
  const rows = execFileSync('ps', ['-A', '-o', 'pid=,ppid=,args='], { encoding: 'utf8' }).trim().split('\n');
  const table = rows.map((row) => {
    const [pid = '', parent = '', ...words] = row.trim().split(/\s+/);
    return { pid: Number(pid), parent: Number(parent), command: words.join(' ') };
  });
  const isBelow = (pid: number): boolean => {
    const parent = table.find((row) => row.pid === pid)?.parent ?? 0;
    return parent === ancestor || (parent > 1 && isBelow(parent));
  };
  const found = table.find(({ pid, command }) => command.startsWith(name) && isBelow(pid));
  if (found === undefined) throw new Error(`no process ${name}`);
  return found.pid;
}
