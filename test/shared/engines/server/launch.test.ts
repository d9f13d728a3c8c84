import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { resolveConfig } from '../../../../shared/config/index.ts';
import { argumentsOf } from '../../../../shared/engines/server/launch.ts';
import { sglangLaunch } from '../../../../shared/engines/sglang/launch.ts';
import { vllmLaunch } from '../../../../shared/engines/vllm/launch.ts';

const PORTS = { http: 8001, events: 20080, replay: 20081 };

async function started(engine: 'vllm' | 'sglang', flags: readonly string[] = [], env: Record<string, string> = {}) {
  const named = [`--engine=${engine}`, '--model=org/model', '--served-model-name=name'];
  const config = resolveConfig('worker', [...named, ...flags], env);
  const plan = await (engine === 'vllm' ? vllmLaunch(config) : sglangLaunch(config));
  return plan.command(PORTS);
}

describe('how engines are started', () => {
  it('writes named values as Python programs take them', () => {
    const named = { a_b: 1, on: true, off: false, none: undefined, object: { x: 1 }, list: ['p', 2] };
    expect(argumentsOf(named)).toEqual(['--a-b', '1', '--on', '--no-off', '--object', '{"x":1}', '--list', 'p', '2']);
  });

  it('starts vLLM on the loopback, with events to an address that it connects to', async () => {
    const { program, args, env } = await started('vllm');
    expect([program, ...args].join(' ')).toBe(
      'vllm serve org/model --host 127.0.0.1 --port 8001 --served-model-name name --kv-events-config ' +
        '{"enable_kv_cache_events":true,"publisher":"zmq","topic":"kv-events","endpoint":"tcp://127.0.0.1:20080",' +
        '"replay_endpoint":"tcp://127.0.0.1:20081"}',
    );
    expect(env).toEqual({ PYTHONHASHSEED: '0', VLLM_SERVER_DEV_MODE: '1' });
  });

  it('gives vLLM what the user wants, in his order: a file’s arguments first, those behind -- last', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'stator-launch-'));
    const file = join(folder, 'engine.json');
    writeFileSync(file, '{"max_num_seqs":8,"max-num-seqs":9}');
    const flags = ['--engine-command=python3 -m vllm', '--no-enable-prefix-caching', '--enable-lora', '--max-loras=2'];
    flags.push(
      '--block-size=16',
      '--kv-transfer-config={"kv_connector":"NixlConnector"}',
      '--engine-config-json',
      file,
    );
    const environment = { PYTHONHASHSEED: '7', VLLM_NIXL_SIDE_CHANNEL_HOST: '10.0.0.1' };
    const { program, args, env } = await started(
      'vllm',
      [...flags, '--', '--gpu-memory-utilization', '0.5'],
      environment,
    );
    rmSync(folder, { recursive: true });
    expect([program, ...args.slice(0, 3)]).toEqual(['python3', '-m', 'vllm', 'serve']);
    const text = args.join(' ');
    expect(text).toContain('--no-enable-prefix-caching');
    expect(text).not.toContain('--kv-events-config'); // nothing to tell without a cache
    expect(text).toContain('--block-size=16');
    expect(text).toContain('--enable-lora --max-loras=2');
    expect(text).toContain('--kv-transfer-config {"kv_connector":"NixlConnector"}');
    expect(text).toMatch(/--max-num-seqs 9.* --gpu-memory-utilization 0.5$/);
    expect(env).toMatchObject({ ...environment, VLLM_ALLOW_RUNTIME_LORA_UPDATING: 'True' });
  });

  it('passes a configured interval of statistics to vLLM', async () => {
    expect((await started('vllm', [], { VLLM_LOG_STATS_INTERVAL: '2.5' })).env).toMatchObject({
      VLLM_LOG_STATS_INTERVAL: '2.5',
    });
    expect((await started('vllm')).env).not.toHaveProperty('VLLM_LOG_STATS_INTERVAL');
  });

  it('adds to the user’s configuration of KV events what he left out', async () => {
    const events = async (...flags: readonly string[]) => {
      const { args } = await started('vllm', flags);
      const at = args.indexOf('--kv-events-config');
      return at < 0 ? undefined : (JSON.parse(args[at + 1] ?? '') as unknown);
    };
    const own = { enable_kv_cache_events: true, publisher: 'zmq', topic: 'kv-events' };
    const replay = { replay_endpoint: 'tcp://127.0.0.1:20081' };
    const flag = '--kv-events-config={"enable_kv_cache_events":true,"endpoint":"tcp://*:5557"}';
    expect(await events(flag)).toEqual({ ...own, ...replay, endpoint: 'tcp://*:5557' });
    expect(await events('--kv-events-config.topic', 'mine')).toMatchObject({ ...replay, topic: 'mine' });
    expect(await events(flag, '--kv-events-config.topic=mine')).toMatchObject({
      topic: 'mine',
      endpoint: 'tcp://*:5557',
    });
    expect(await events('--', flag)).toMatchObject({ endpoint: 'tcp://*:5557' });
    // Nobody asks a decode worker for events, unless the user does.
    expect(await events('--disaggregation-mode=decode')).toBe(undefined);
    expect(await events('--disaggregation-mode=decode', flag)).toMatchObject({ endpoint: 'tcp://*:5557' });
    expect(await events('--kv-events-config={"enable_kv_cache_events":false}')).toEqual({
      enable_kv_cache_events: false,
    });
  });

  it('starts SGLang with metrics and events', async () => {
    const { program, args } = await started('sglang', ['--block-size=16', '--disaggregation-mode=prefill']);
    expect([program, ...args].join(' ')).toBe(
      'python3 -m sglang.launch_server --model-path org/model --host 127.0.0.1 --port 8001 --served-model-name name ' +
        '--enable-metrics --kv-events-config {"publisher":"zmq","topic":"kv-events",' +
        '"endpoint":"tcp://127.0.0.1:20080","replay_endpoint":"tcp://127.0.0.1:20081"} --disaggregation-mode prefill --page-size 16',
    );
  });
});
