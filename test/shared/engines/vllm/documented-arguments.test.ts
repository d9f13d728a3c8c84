import { describe, expect, it } from 'vitest';
import { resolveConfig } from '../../../../shared/config/index.ts';
import { vllmLaunch } from '../../../../shared/engines/vllm/launch.ts';

const PORTS = { http: 8001, events: 20080, replay: 20081 };

/** What vLLM is started with, a blank between a name and its value however they are joined. */
async function commandOf(flags: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const config = resolveConfig('worker', ['--engine=vllm', '--model=org/model', ...flags], env);
  const command = (await vllmLaunch(config)).command(PORTS);
  return { ...command, line: command.args.join(' ').replaceAll(/(--[a-z-]+)=/g, '$1 ') };
}

describe('what Dynamo documents for a vLLM worker', () => {
  const transfer = '{"kv_connector":"NixlConnector","kv_role":"kv_both"}';

  it.each([
    ['--model', [], 'serve org/model '],
    ['--tensor-parallel-size', ['--tensor-parallel-size=4'], '--tensor-parallel-size 4'],
    ['--kv-transfer-config', [`--kv-transfer-config=${transfer}`], `--kv-transfer-config ${transfer}`],
    ['--enable-prefix-caching', ['--no-enable-prefix-caching'], '--no-enable-prefix-caching'],
    ['--prefix-caching-algo', ['--prefix-caching-algo=sha256'], '--prefix-caching-hash-algo sha256'],
    ['--prefix-caching-hash-algo', ['--prefix-caching-hash-algo=sha256'], '--prefix-caching-hash-algo sha256'],
    ['--enable-prompt-embeds', ['--enable-prompt-embeds'], '--enable-prompt-embeds'],
    ['an argument behind --', ['--', '--max-model-len', '4096'], '--max-model-len 4096'],
  ])('reaches the engine: %s', async (_, flags, expected) => {
    expect((await commandOf(flags)).line).toContain(expected);
  });

  it('hashes blocks alike in every process: PYTHONHASHSEED is 0 unless it is set', async () => {
    expect((await commandOf([])).env).toMatchObject({ PYTHONHASHSEED: '0' });
    expect((await commandOf([], { PYTHONHASHSEED: '7' })).env).toMatchObject({ PYTHONHASHSEED: '7' });
  });

  it('publishes KV events where --kv-events-config says, and none where that switches them off', async () => {
    const to = (endpoint: string) => `--kv-events-config={"enable_kv_cache_events":true,"endpoint":"${endpoint}"}`;
    expect((await commandOf([to('tcp://*:5557')])).line).toContain('tcp://*:5557');
    expect((await commandOf(['--kv-events-config={"enable_kv_cache_events":false}'])).line).not.toContain('tcp://');
  });
});
