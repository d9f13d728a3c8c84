import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';
import { builtinModelPath } from '../../../../shared/artifacts/index.ts';
import { SYSTEM } from '../../../../shared/clock/index.ts';
import { introduce } from '../../../../shared/commands/chat.ts';
import { resolveConfig } from '../../../../shared/config/index.ts';
import { MemoryDiscovery } from '../../../../shared/discovery/memory/memory-discovery.ts';
import { HeldPorts } from '../../../../shared/engines/server/held-ports.ts';
import { captureLogger } from '../../../../shared/telemetry/log/logger.ts';
import { startWorkerProcess, type WorkerProcess } from '../../../../shared/worker/process/worker.ts';
import { freePort, isRunning, waitUntil } from '../../../support/index.ts';

const FAKE = fileURLToPath(new URL('../../engines/server/fake-engine.mjs', import.meta.url));
const ENGINE = [`--engine-command=${process.execPath} ${FAKE}`, `--model-path=${builtinModelPath()}`];

describe('a worker process', () => {
  const started: WorkerProcess[] = [];
  afterEach(async () => {
    for (const worker of started.splice(0)) await worker.drain();
  });

  async function start(flags: readonly string[], env: Readonly<Record<string, string>> = {}) {
    const config = resolveConfig('worker', flags, { DYN_DISCOVERY_BACKEND: 'mem', ...env });
    const { logger, lines } = captureLogger();
    const worker = await startWorkerProcess(config, SYSTEM, logger, new AbortController().signal);
    started.push(worker);
    return { worker, lines };
  }

  it('of prefill and decode in one counts as aggregated, and offers what it was told to', async () => {
    const flags = ['--engine=vllm', ...ENGINE, '--disaggregation-mode=pd', '--endpoint-types=chat', '--namespace=a'];
    const env = { DYN_STABLE_ROUTING_ID: 'worker-0', DYN_ENGINE_REQUEST_LIMIT: '3', DYN_NAMESPACE_WORKER_SUFFIX: 'b' };
    const { worker } = await start(flags, env);
    const card = worker.workers[0]?.card;
    expect(card).toMatchObject({
      worker_type: 'aggregated',
      model_type: ['Chat'],
      needs: [],
      runtime_config: { stable_routing_id: 'worker-0', max_num_seqs: 3 },
    });
  });

  it('of a mock engine says so to its chat clients', async () => {
    const { worker } = await start(['--engine=mocker', '--namespace=mock']);
    const card = worker.workers[0]?.card;
    expect.assert(card !== undefined);
    expect(introduce({ name: 'm', card })).toMatch(/^m, a mock/);
    const { worker: real } = await start(['--engine=vllm', ...ENGINE, '--namespace=real']);
    expect(introduce({ name: 'm', card: real.workers[0]?.card ?? card })).toBe('m');
  });

  it('registers with the facts of its machine, and drains when a planner orders that', async () => {
    const facts = { instance_id: 'i-0123', zone: 'us-east-1b', market: 'spot' };
    const env = { STATOR_HOST_FACTS: JSON.stringify(facts) };
    const { worker, lines } = await start(['--engine=mocker', '--namespace=ordered'], env);
    const planner = new MemoryDiscovery(); // of this process, as the worker's
    const place = { bucket: 'v1/instances', prefix: 'ordered/backend/generate' } as const;
    expect(await planner.list(place)).toMatchObject([{ host: facts }]);
    const order = { reason: 'spot-warning', deadlineMs: Date.now() + 90_000 };
    expect(await planner.orderDrain(['i-0123'], order)).toEqual([worker.workers[0]?.instanceId]);
    expect(await worker.drainOrdered).toBe('spot-warning');
    await worker.drain();
    expect(await planner.list(place)).toEqual([]);
    expect(lines.map(({ message }) => message)).toContain('a planner orders this worker to drain');
    await planner.close();
  });

  it('says in one line what to do where its engine is not installed', async () => {
    const bare = join(mkdtempSync(join(tmpdir(), 'stator-worker-')), 'python3');
    writeFileSync(bare, `#!/bin/sh\necho "python3: No module named 'sglang'" >&2\nexit 1\n`, { mode: 0o755 });
    const refusalOf = (engine: string, command: string): Promise<string> =>
      start([`--engine=${engine}`, `--engine-command=${command}`, `--model-path=${builtinModelPath()}`]).then(
        () => 'it started',
        (error: Error) => error.message,
      );
    expect(await refusalOf('vllm', '/nowhere/vllm serve')).toMatch(
      /^the engine is not installed.*pip install vllm.*--engine-url$/,
    );
    expect(await refusalOf('sglang', bare)).toMatch(/^the engine is not installed.*pip install 'sglang.*--engine-url$/);
    expect(await refusalOf('sglang', 'sh -c false')).toMatch(/^sh ended with 1/);
    rmSync(dirname(bare), { recursive: true });
  });

  it.each<[string, (port: number) => Readonly<Record<string, string>>]>([
    ['its control server', (port) => ({ STATOR_CONTROL_PORT: String(port) })],
    ['its request plane', (port) => ({ DYN_TCP_RPC_PORT: String(port) })],
    ['its event plane', () => ({ DYN_EVENT_PLANE_HOST: '0.0.0.0' })],
  ])('leaves no status server behind if %s cannot be opened', async (_, env) => {
    const taken = createServer();
    await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
    const port = await freePort();
    const starting = start(['--engine=mocker'], {
      DYN_SYSTEM_PORT: String(port),
      DYN_SYSTEM_HOST: '127.0.0.1',
      STATOR_CONTROL_HOST: '127.0.0.1',
      DYN_TCP_RPC_HOST: '127.0.0.1',
      ...env((taken.address() as AddressInfo).port),
    });
    await expect(starting).rejects.toThrow();
    await expect(fetch(`http://127.0.0.1:${port}/live`)).rejects.toThrow('fetch failed');
    taken.close();
  });

  it('of a mock engine has no such role', async () => {
    await expect(start(['--engine=mocker', '--disaggregation-mode=pd'])).rejects.toThrow(
      '--disaggregation-mode pd: --engine mocker cannot do that',
    );
  });

  describe('of a secondary node', () => {
    it('runs the engine without an endpoint, and ends with it', async () => {
      const port = await freePort();
      const flags = ['--engine=vllm', ...ENGINE, '--headless', '--', '--data-parallel-start-rank', '1'];
      const { worker, lines } = await start(flags, { DYN_SYSTEM_PORT: `${port}`, DYN_SYSTEM_HOST: '127.0.0.1' });
      expect(worker.workers).toEqual([]);
      const health = await fetch(`http://127.0.0.1:${port}/health`);
      expect(await health.json()).toMatchObject({ status: 'ready', endpoints: { engine: 'ready' } });
      const { args } = lines.find(({ message }) => message.startsWith('starting a secondary node'))?.fields ?? {};
      expect(args).toMatch(/ --data-parallel-start-rank 1 --headless$/);
      expect(args).not.toContain('kv-events-config');
      const pid = await waitUntil(() =>
        lines.map(({ message }) => /helper (\d+)/.exec(message)?.[1]).find((found) => found !== undefined),
      );
      await worker.drain();
      await waitUntil(() => !isRunning(Number(pid)), { what: 'the end of the whole engine' });
      expect((await worker.engineExit).message).toContain('ended with SIGTERM');
    });

    it('of SGLang runs the part that its rank names, and no other', async () => {
      const port = await freePort();
      const flags = ['--engine=sglang', ...ENGINE, '--headless'];
      const env = { DYN_SYSTEM_PORT: `${port}`, DYN_SYSTEM_HOST: '127.0.0.1' };
      await expect(start([...flags, '--', '--node-rank', '0'], env)).rejects.toThrow(
        '--headless with --engine sglang needs --node-rank of 1 or more, not 0',
      );
      const group = ['--nnodes', '2', '--node-rank', '1', '--dist-init-addr', '10.0.0.1:20000'];
      const { worker, lines } = await start([...flags, '--', ...group], env);
      expect(worker.workers).toEqual([]);
      const health = await fetch(`http://127.0.0.1:${port}/health`);
      expect(await health.json()).toMatchObject({ status: 'ready', endpoints: { engine: 'ready' } });
      const { args } = lines.find(({ message }) => message.startsWith('starting a secondary node'))?.fields ?? {};
      expect(args).toMatch(/ --nnodes 2 --node-rank 1 --dist-init-addr 10\.0\.0\.1:20000$/);
      await worker.drain();
    });

    it('that cannot start keeps no port from others', async () => {
      const [statusPort, port] = [await freePort(), await freePort()];
      const flags = ['--engine=vllm', ...ENGINE, '--headless', '--engine-ports=30000-30001', '--', '--port', `${port}`];
      const env = { DYN_SYSTEM_PORT: `${statusPort}`, DYN_SYSTEM_HOST: '127.0.0.1' };
      await expect(start(flags, env)).rejects.toThrow('no 16 adjacent ports of 30000-30001');
      const others = new HeldPorts();
      for (const each of [statusPort, port]) {
        expect(await others.take({ setting: 'a port', ports: { first: each, last: each } })).toBe(each);
      }
      others.release();
    });

    it('is refused where there is nothing to be a node of', async () => {
      await expect(start(['--engine=mocker', '--headless'])).rejects.toThrow(
        '--headless needs --engine vllm or sglang',
      );
      const attached = ['--engine=vllm', '--engine-url=http://127.0.0.1:1', '--headless'];
      await expect(start(attached)).rejects.toThrow('leave --engine-url out');
    });
  });
});
