import { describe, expect, it } from 'vitest';
import { argumentsOf } from '../../../../shared/engines/server/dialect.ts';
import { sglangLaunch } from '../../../../shared/engines/sglang/launch.ts';
import { type VllmLaunchSettings, vllmLaunch } from '../../../../shared/engines/vllm/launch.ts';

const PORTS = { http: 8001, events: 20080, replay: 20081 };
const SETTINGS: VllmLaunchSettings = {
  model: 'org/model',
  servedModelName: 'name',
  maxNumSeqs: 256,
  maxNumBatchedTokens: 8192,
  enablePrefixCaching: true,
  eventsPort: 20080,
  publishesKvEvents: true,
  enableLora: false,
  enablePromptEmbeds: false,
  shutdownTimeoutSecs: 4,
  args: [],
};

describe('how engines are started', () => {
  it('writes named values as Python programs take them', () => {
    const named = { a_b: 1, on: true, off: false, none: undefined, object: { x: 1 }, list: ['p', 2] };
    expect(argumentsOf(named)).toEqual(['--a-b', '1', '--on', '--no-off', '--object', '{"x":1}', '--list', 'p', '2']);
  });

  it('starts vLLM on the loopback, with events to an address that it connects to', () => {
    const { program, args, env } = vllmLaunch(SETTINGS).command(PORTS);
    expect([program, ...args].join(' ')).toBe(
      'vllm serve org/model --host 127.0.0.1 --port 8001 --served-model-name name --max-num-seqs 256 ' +
        '--max-num-batched-tokens 8192 --enable-prefix-caching --kv-events-config ' +
        '{"enable_kv_cache_events":true,"publisher":"zmq","topic":"kv-events","endpoint":"tcp://127.0.0.1:20080",' +
        '"replay_endpoint":"tcp://127.0.0.1:20081"}',
    );
    expect(env).toEqual({ PYTHONHASHSEED: '0', VLLM_SERVER_DEV_MODE: '1' });
  });

  it('gives vLLM what the user wants: a file’s arguments over ours, those behind -- last', () => {
    const { program, args, env } = vllmLaunch({
      ...SETTINGS,
      program: ['python3', '-m', 'vllm'],
      enablePrefixCaching: false,
      enableLora: true,
      maxLoras: 2,
      blockSizeTokens: 16,
      kvTransferConfig: { kv_connector: 'NixlConnector' },
      fromFile: { max_num_seqs: 8, 'max-num-seqs': 9 },
      args: ['--gpu-memory-utilization', '0.5'],
      env: { PYTHONHASHSEED: '7' },
    }).command(PORTS);
    expect([program, ...args.slice(0, 3)]).toEqual(['python3', '-m', 'vllm', 'serve']);
    const text = args.join(' ');
    expect(text).toContain('--no-enable-prefix-caching');
    expect(text).not.toContain('--kv-events-config'); // nothing to tell without a cache
    expect(text).toContain('--block-size 16');
    expect(text).toContain('--enable-lora --max-loras 2');
    expect(text).toContain('--kv-transfer-config {"kv_connector":"NixlConnector"}');
    expect(text).toMatch(/--max-num-seqs 9.* --gpu-memory-utilization 0.5$/);
    expect(env).toMatchObject({ PYTHONHASHSEED: '7', VLLM_ALLOW_RUNTIME_LORA_UPDATING: 'True' });
  });

  it('takes the user’s configuration of KV events as it is', () => {
    const kvEventsConfig = { enable_kv_cache_events: true, endpoint: 'tcp://*:5557' };
    const { args } = vllmLaunch({ ...SETTINGS, kvEventsConfig }).command(PORTS);
    expect(args).toContain(JSON.stringify(kvEventsConfig));
    const decode = vllmLaunch({ ...SETTINGS, kvEventsConfig, publishesKvEvents: false }).command(PORTS);
    expect(decode.args.join(' ')).not.toContain('kv-events');
  });

  it('starts SGLang with metrics and events', () => {
    const { program, args } = sglangLaunch({ ...SETTINGS, pageSizeTokens: 16, disaggregationMode: 'prefill' }).command(
      PORTS,
    );
    expect([program, ...args].join(' ')).toBe(
      'python3 -m sglang.launch_server --model-path org/model --host 127.0.0.1 --port 8001 --served-model-name name ' +
        '--enable-metrics --page-size 16 --kv-events-config {"publisher":"zmq","topic":"kv-events",' +
        '"endpoint":"tcp://127.0.0.1:20080","replay_endpoint":"tcp://127.0.0.1:20081"} --disaggregation-mode prefill',
    );
  });
});
