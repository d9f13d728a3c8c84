import { describe, expect, it } from 'vitest';
import { ConfigError, type Process, resolveConfig } from '../../../shared/config/index.ts';
import { machineWith } from './surroundings.ts';

const surroundings = machineWith({ '/c.pem': '', '/k.pem': '', '/key': 'x'.repeat(32) });

/** Flags that name the timing model. */
const AIC = ['--aic-backend=vllm', '--aic-system=h200_sxm', '--aic-model-path=/m'] as const;

function problemsOf(process: Process, ...argv: readonly string[]): readonly string[] {
  try {
    resolveConfig(process, argv, {}, { surroundings });
  } catch (thrown) {
    if (thrown instanceof ConfigError) return thrown.problems;
    throw thrown;
  }
  return [];
}

function settingsOf(...argv: readonly string[]) {
  return resolveConfig('frontend', argv, {}, { surroundings });
}

const VLLM = ['--engine=vllm', '--model=m'] as const;

describe('settings that need each other', () => {
  it.each([
    ['frontend', ['--tls-cert-path=/c.pem'], '--tls-cert-path needs --tls-key-path'],
    ['frontend', ['--tls-key-path=/k.pem'], '--tls-key-path needs --tls-cert-path'],
    ['worker', ['--engine=mocker', '--tcp-tls-cert-path=/c.pem'], '--tcp-tls-cert-path needs --tcp-tls-key-path'],
    [
      'frontend',
      ['--tls-client-ca-cert-path=/c.pem'],
      '--tls-client-ca-cert-path needs --tls-cert-path and --tls-key-path',
    ],
    [
      'frontend',
      ['--decode-fallback', '--enforce-disagg'],
      '--decode-fallback and --enforce-disagg exclude each other',
    ],
    [
      'frontend',
      ['--endpoint-picker-port=9002', '--endpoint-picker-target-port='],
      '--endpoint-picker-target-port must name at least one port',
    ],
    [
      'frontend',
      ['--use-remote-indexer', '--serve-indexer'],
      '--use-remote-indexer and --serve-indexer exclude each other',
    ],
    [
      'frontend',
      ['--router-track-output-blocks', '--no-router-track-active-blocks'],
      '--router-track-output-blocks needs --router-track-active-blocks',
    ],
    [
      'frontend',
      ['--router-prefill-load-model=ais', '--no-router-track-prefill-tokens', '--router-mode=kv', ...AIC],
      '--router-prefill-load-model aic needs --router-track-prefill-tokens',
    ],
    [
      'router',
      ['--router-prefill-load-model=aic', '--aic-backend=vllm', '--aic-system=h200_sxm'],
      '--router-prefill-load-model aic needs --aic-backend, --aic-system and --aic-model-path',
    ],
    ['frontend', ['--router-prefill-load-model=aic', ...AIC], '--router-prefill-load-model aic needs --router-mode kv'],
    [
      'frontend',
      ['--router-approximate-cache-policy=lru'],
      '--router-approximate-cache-policy lru needs --no-router-kv-events',
    ],
    [
      'frontend',
      ['--router-predicted-ttl-secs=5', '--no-router-kv-events'],
      '--router-predicted-ttl-secs needs --router-kv-events',
    ],
    [
      'frontend',
      ['--router-tracking-hash=keyed-xxh3-v1', '--router-tracking-key-file=/key'],
      '--router-tracking-hash keyed-xxh3-v1 needs --router-tracking-key-file and --router-tracking-key-id',
    ],
    [
      'frontend',
      ['--router-tracking-key-file=/key'],
      '--router-tracking-key-file needs --router-tracking-hash keyed-xxh3-v1',
    ],
    [
      'router',
      ['--router-tracking-key-id=2026-01'],
      '--router-tracking-key-id needs --router-tracking-hash keyed-xxh3-v1',
    ],
    [
      'frontend',
      ['--router-tracking-hash=keyed-xxh3-v1', '--router-tracking-key-file=/key', '--router-tracking-key-id= 2026-01'],
      '--router-tracking-key-id must be a name without spaces around it',
    ],
    ['worker', ['--engine=openai'], '--engine openai needs --engine-url, the base URL of the running server'],
    [
      'local',
      ['--engine-url=http://h'],
      '--engine-url needs --engine vllm, sglang, trtllm or openai: the mocker has no server',
    ],
    [
      'worker',
      ['--engine=vllm'],
      '--engine needs --model, the id or folder of the model to serve, or --engine-url, a running server',
    ],
    ['frontend', ['--discovery-backend=dynamodb'], '--discovery-backend dynamodb needs STATOR_DISCOVERY_TABLE'],
    [
      'local',
      ['--discovery-backend=dynamodb'],
      '--discovery-backend must be file for stator local: its workers are processes of their own on this machine',
    ],
    [
      'local',
      ['--num-prefill-workers=1', '--num-decode-workers=1', '--disaggregation-mode=decode'],
      '--disaggregation-mode and --num-prefill-workers exclude each other: each worker of the two pools has the role of its pool',
    ],
    [
      'worker',
      ['--engine=mocker', '--is-prefill-worker', '--is-decode-worker'],
      '--is-prefill-worker and --is-decode-worker exclude each other',
    ],
    [
      'worker',
      ['--engine=openai', '--engine-url=http://h', '--route-to-encoder'],
      '--route-to-encoder needs --enable-multimodal',
    ],
    [
      'worker',
      [...VLLM, '--enable-multimodal', '--multimodal-worker', '--multimodal-decode-worker'],
      '--multimodal-worker and --multimodal-decode-worker exclude each other',
    ],
    ['worker', [...VLLM, '--multimodal-worker'], '--multimodal-worker needs --enable-multimodal'],
    ['worker', [...VLLM, '--disaggregation-mode=encode'], '--disaggregation-mode encode needs --enable-multimodal'],
    [
      'worker',
      [...VLLM, '--enable-multimodal', '--route-to-encoder', '--disaggregation-mode=decode'],
      '--route-to-encoder needs --disaggregation-mode agg or prefill: only such workers compute prompts',
    ],
    [
      'worker',
      ['--engine=mocker', '--enable-multimodal'],
      '--enable-multimodal needs --engine vllm or trtllm; --engine openai passes media on without it',
    ],
    [
      'worker',
      [...VLLM, '--mm-prompt-template=USER:'],
      '--mm-prompt-template needs <prompt>, where the text of the request goes',
    ],
  ] as const)('%s %j', (process, argv, problem) => {
    expect(problemsOf(process, ...argv)).toEqual([problem]);
  });

  it.each([
    ['--is-prefill-worker', 'prefill', 'prefill'],
    ['--is-decode-worker', 'decode', 'backend'],
    ['--multimodal-encode-worker', 'encode', 'encode'],
    ['--multimodal-decode-worker', 'decode', 'backend'],
    ['--multimodal-worker', 'agg', 'backend'],
  ])('take %s for role %s at endpoint %s, and say what to use instead', (flag, mode, component) => {
    const { settings, warnings } = resolveConfig(
      'worker',
      [...VLLM, '--enable-multimodal', '--kv-transfer-config={}', flag],
      {},
      { surroundings },
    );
    expect(settings).toMatchObject({ disaggregationMode: mode, endpoint: `dyn://dynamo.${component}.generate` });
    expect(warnings.join()).toContain(`${flag} is deprecated`);
  });

  it('pass when they are complete', () => {
    expect(problemsOf('frontend', '--tls-cert-path=/c.pem', '--tls-key-path=/k.pem')).toEqual([]);
    expect(problemsOf('frontend', '--no-router-kv-events', '--router-approximate-cache-policy=lru')).toEqual([]);
  });

  it('refuse NATS for a function, and tell it which settings of NATS it does not use', () => {
    const resolve = (process: Process, env: Readonly<Record<string, string>>) =>
      resolveConfig(process, [], env, { surroundings });
    const overNats = { DYN_REQUEST_PLANE: 'nats', NATS_SERVER: 'nats://b:4222' };
    expect(() => resolve('function', overNats)).toThrow(
      /^DYN_REQUEST_PLANE nats is not for a function, which has no client of NATS: use tcp here and at the workers/,
    );
    expect(resolve('frontend', overNats).warnings).toEqual([]);
    const idle = { DYN_EVENT_PLANE: 'nats', NATS_SERVER: 'nats://b:4222', NATS_AUTH_TOKEN: 't' };
    expect(resolve('function', idle).warnings).toEqual(
      Object.keys(idle).map((name) => `${name} has no effect: a function has no client of NATS and follows no events`),
    );
    expect(resolve('function', { DYN_EVENT_PLANE: '' }).warnings).toEqual([]);
  });

  it('say that a multiplier needs a shared pool to multiply', () => {
    const warning = '--shared-cache-multiplier has no effect: --shared-cache-type none has no pool to ask';
    expect(settingsOf('--shared-cache-multiplier=0.5').warnings).toContain(warning);
    expect(settingsOf('--shared-cache-multiplier=0').warnings).not.toContain(warning);
    expect(problemsOf('frontend', '--shared-cache-type=hicache')[0]).toMatch(
      /^--shared-cache-type "hicache": not built yet/,
    );
  });

  it.each<[Process, readonly string[], Record<string, string>, string]>([
    [
      'frontend',
      ['--serve-indexer', '--router-mode=random'],
      {},
      '--serve-indexer has no effect: it needs --router-mode kv',
    ],
    [
      'frontend',
      ['--use-remote-indexer', '--router-mode=random'],
      {},
      '--use-remote-indexer has no effect: it needs --router-mode kv',
    ],
    [
      'worker',
      ['--engine=mocker', '--watermark=0.1', '--engine-type=sglang'],
      {},
      '--watermark has no effect: --engine',
    ],
    [
      'worker',
      ['--engine=mocker'],
      { DYN_KV_TRANSFER_DOMAIN: 'zone' },
      'DYN_KV_TRANSFER_DOMAIN has no effect: it needs DYN_TOPO',
    ],
  ])('say that one does nothing beside the others: %s %j %j', (process, argv, env, says) => {
    expect(resolveConfig(process, argv, env, { surroundings }).warnings.join('\n')).toContain(says);
  });

  it.each<[Process, readonly string[], Record<string, string>]>([
    ['frontend', ['--serve-indexer', '--router-mode=kv'], {}],
    ['worker', ['--engine=mocker', '--watermark=0.1'], {}],
    ['worker', ['--engine=mocker', '--engine-type=sglang'], {}],
    ['worker', ['--engine=mocker'], { DYN_KV_TRANSFER_DOMAIN: 'zone', DYN_TOPOLOGY_ENABLED: 'true' }],
  ])('say nothing of those that do: %s %j %j', (process, argv, env) => {
    expect(resolveConfig(process, argv, env, { surroundings }).warnings.join('\n')).not.toContain('no effect');
  });

  it('refuse route types beside none', () => {
    const refusal = '--endpoint-types none cannot be combined with others: it registers no route';
    expect(problemsOf('worker', '--engine=mocker', '--endpoint-types=none,chat')).toEqual([refusal]);
    expect(problemsOf('worker', '--engine=mocker', '--endpoint-types=none')).toEqual([]);
  });

  it('say that the timing model has no versions', () => {
    const { warnings } = settingsOf(
      '--router-mode=kv',
      '--router-prefill-load-model=aic',
      ...AIC,
      '--aic-backend-version=1',
    );
    expect(warnings).toContain(
      '--aic-backend-version has no effect: the built-in estimate has no tables of measurements',
    );
  });

  it('name the variable when that is what was given', () => {
    expect(() => resolveConfig('frontend', [], { DYN_TLS_CERT_PATH: '/c.pem' }, { surroundings })).toThrow(
      'DYN_TLS_CERT_PATH needs --tls-key-path',
    );
  });

  it('refuse a connector with the flag to use', () => {
    expect(problemsOf('worker', '--engine=mocker', '--connector=nixl')[0]).toContain('use --kv-transfer-config');
  });

  it('refuse one status port for several local workers', () => {
    const env = { DYN_SYSTEM_PORT: '9100' };
    expect(() => resolveConfig('local', [], env)).toThrow('use 0 (any free port) or a range such as 9100-9163');
    expect(resolveConfig('local', ['--num-workers=1'], env).settings.systemPort).toEqual({ first: 9100, last: 9100 });
    expect(() => resolveConfig('local', ['--num-workers=3'], { DYN_SYSTEM_PORT: '9100-9101' })).toThrow('fewer ports');
    const enough = resolveConfig('local', ['--num-workers=3'], { DYN_SYSTEM_PORT: '9100-9102' });
    expect(enough.settings.systemPort).toEqual({ first: 9100, last: 9102 });
    expect(resolveConfig('local', [], { DYN_SYSTEM_PORT: '-1' }).settings.systemPort).toEqual({ first: -1, last: -1 });
  });

  it.each([
    [['--planner'], 4],
    [['--planner', '--max-workers=2'], 2],
    [['--num-prefill-workers=1', '--num-decode-workers=2'], 3],
    [['--engine=openai', '--engine-url=http://127.0.0.1:1'], 1],
  ])('count the local workers of %o: %i', (flags, workers) => {
    for (const name of ['DYN_SYSTEM_PORT', 'DYN_TCP_RPC_PORT']) {
      const range = (ports: number): Record<string, string> => ({ [name]: `9100-${9099 + ports}` });
      expect(() => resolveConfig('local', flags, range(workers))).not.toThrow();
      if (workers > 1)
        expect(() => resolveConfig('local', flags, range(workers - 1))).toThrow(`${name} has fewer ports`);
    }
  });
});

describe('ports of a fleet', () => {
  const table = { DYN_DISCOVERY_BACKEND: 'dynamodb', STATOR_DISCOVERY_TABLE: 't', NATS_SERVER: 'nats://n:4222' };

  it('are ranges that a firewall can name where machines meet, and any free one on one machine', () => {
    expect(resolveConfig('worker', ['--engine=mocker'], table, { surroundings }).settings).toMatchObject({
      tcpRpcPort: { first: 8800, last: 8863 },
      systemPort: { first: 9100, last: 9163 },
    });
    expect(settingsOfWorker({})).toMatchObject({
      tcpRpcPort: { first: 0, last: 0 },
      systemPort: { first: -1, last: -1 },
    });
  });

  it.each([
    ['8800-8799', 'ends before it starts'],
    ['0-10', 'starts at 1'],
    ['8800-70000', 'out of range'],
    ['8800-', 'not a whole number'],
    ['x', 'not a whole number'],
  ])('refuse %s', (text, reason) => {
    expect(() => settingsOfWorker({ DYN_TCP_RPC_PORT: text })).toThrow(reason);
  });

  function settingsOfWorker(env: Record<string, string>) {
    return resolveConfig('worker', ['--engine=mocker'], env, { surroundings }).settings;
  }
});

describe('settings that stand for others', () => {
  it('translate the deprecated overlap weight, explicit settings first', () => {
    const translated = settingsOf('--router-kv-overlap-score-weight=0');
    expect(translated.settings).toMatchObject({ routerPrefillLoadScale: 0, routerKvOverlapScoreCredit: 0 });
    expect(translated.warnings.join()).toContain(
      '--router-kv-overlap-score-weight is deprecated: use --router-prefill-load-scale',
    );
    const explicit = settingsOf('--router-kv-overlap-score-weight=3', '--router-prefill-load-scale=2');
    expect(explicit.settings).toMatchObject({ routerPrefillLoadScale: 2, routerKvOverlapScoreCredit: 1 });
  });

  it('let the load-only preset choose the mode that it is of', () => {
    expect(settingsOf('--load-aware').settings.routerMode).toBe('kv');
    expect(settingsOf().settings.routerMode).toBe('round-robin');
  });

  it('translate the deprecated worker roles', () => {
    const argv = ['--engine=mocker', '--is-decode-worker'];
    expect(resolveConfig('worker', argv, {}).settings.disaggregationMode).toBe('decode');
  });

  it('put crossed bucket limits back to their defaults with a warning', () => {
    const { settings, warnings } = resolveConfig('frontend', [], {
      DYN_METRICS_ITL_MIN: '5',
      DYN_METRICS_ITL_MAX: '5',
      DYN_METRICS_TTFT_MIN: '0.5',
    });
    expect(settings).toMatchObject({ metricsItlMin: 0.001, metricsItlMax: 80, metricsTtftMin: 0.5 });
    expect(warnings.join()).toContain('DYN_METRICS_ITL_MIN 5 is not below DYN_METRICS_ITL_MAX 5');
  });
});

describe('what is allowed but doubtful', () => {
  it('warns of a credit above 1', () => {
    expect(settingsOf('--router-kv-overlap-score-credit=4').warnings.join()).toContain('is above 1.0');
  });

  it('has nothing to say of where processes meet', () => {
    expect(settingsOf().warnings).toEqual([]);
    expect(settingsOf('--discovery-backend=mem').warnings).toEqual([]);
    expect(resolveConfig('local', [], {}).warnings).toEqual([]);
  });

  it('warns of deprecated settings that change nothing, and of nothing else about them', () => {
    const { warnings } = settingsOf('--discovery-backend=file', '--router-durable-kv-events');
    expect(warnings).toEqual(['--router-durable-kv-events is deprecated: it changes nothing']);
  });
});
