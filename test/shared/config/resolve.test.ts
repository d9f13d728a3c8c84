import type { NetworkInterfaceInfo } from 'node:os';
import { describe, expect, it } from 'vitest';
import { ConfigError, type Process, resolveConfig, TABLE } from '../../../shared/config/index.ts';
import type { ResolveOptions } from '../../../shared/config/resolve.ts';
import { UNBUILT } from '../../../shared/config/unbuilt.ts';
import { machineWith } from './surroundings.ts';

type Env = Readonly<Record<string, string>>;

function problemsOf(
  process: Process,
  argv: readonly string[],
  env: Env = {},
  options: ResolveOptions = {},
): readonly string[] {
  try {
    resolveConfig(process, argv, env, { surroundings: machineWith(), ...options });
  } catch (thrown) {
    if (thrown instanceof ConfigError) return thrown.problems;
    throw thrown;
  }
  return [];
}

function frontend(argv: readonly string[], env: Env = {}) {
  return resolveConfig('frontend', ['--discovery-backend', 'file', ...argv], env, { surroundings: machineWith() });
}

function worker(argv: readonly string[], env: Env = {}) {
  const surroundings = machineWith({ '/t.jinja': '', '/home/user/t.jinja': '' }, ['/models/a'], { DIR: '/models' });
  return resolveConfig('worker', ['--engine', 'mocker', '--discovery-backend', 'file', ...argv], env, { surroundings });
}

/** An interface of a machine that has `address`. */
function interfaceOf(address: string): NetworkInterfaceInfo {
  const entry = { address, netmask: '', mac: '', cidr: null, internal: false };
  return address.includes(':') ? { ...entry, family: 'IPv6', scopeid: 0 } : { ...entry, family: 'IPv4' };
}

describe('flags', () => {
  it('take a value after a blank or an equals sign, and the last one counts', () => {
    expect(frontend(['--http-port', '1', '--http-port=2']).settings.httpPort).toBe(2);
    expect(frontend(['--http-port=2', '--http-port', '1']).settings.httpPort).toBe(1);
  });

  it('switch on, off, and by word', () => {
    expect(frontend(['--tokenizer-fallback']).settings.tokenizerFallback).toBe(true);
    expect(frontend(['--no-tokenizer-fallback']).settings.tokenizerFallback).toBe(false);
    expect(frontend(['--tokenizer-fallback=false']).settings.tokenizerFallback).toBe(false);
    expect(frontend(['--tokenizer-fallback=TRUE']).settings.tokenizerFallback).toBe(true);
    expect(frontend(['--no-tokenizer-fallback', '--tokenizer-fallback']).settings.tokenizerFallback).toBe(true);
  });

  it('append when they repeat a list, split at commas and blanks', () => {
    const { settings } = frontend(['--cors-origin', 'a,b', '--cors-origin', 'c d']);
    expect(settings.corsOrigin).toEqual(['a', 'b', 'c', 'd']);
  });

  it('take negative numbers but not another flag as a value', () => {
    expect(worker(['--stagger-delay', '-1']).settings.staggerDelaySecs).toBe(-1);
    expect(problemsOf('frontend', ['--model-name', '--http-port=1'])).toEqual(['--model-name needs a value: string']);
    expect(problemsOf('frontend', ['--http-port'])).toEqual(['--http-port needs a value: port, 0-65535, 0 = any free']);
  });

  it('are refused with the nearest name when unknown, one message a mistake', () => {
    expect(problemsOf('frontend', ['--routr-mode', 'random'])).toEqual([
      'unknown flag --routr-mode; did you mean --router-mode?',
    ]);
    expect(problemsOf('frontend', ['--router-mod=random'])).toEqual([
      'unknown flag --router-mod; did you mean --router-mode?',
    ]);
    expect(problemsOf('frontend', ['--zzzzzzzz'])).toEqual([
      'unknown flag --zzzzzzzz; stator frontend --help lists all',
    ]);
  });

  it('of another command are refused with the command that takes them', () => {
    expect(problemsOf('frontend', ['--trace', 'x'])).toEqual([
      '--trace belongs to stator simulate, not to stator frontend',
    ]);
    expect(problemsOf('frontend', ['--seed', '1'])).toEqual([
      '--seed belongs to stator worker, stator local, stator simulate, not to stator frontend',
    ]);
    expect(problemsOf('frontend', ['--no-enable-prefix-caching'])[0]).toContain('belongs to stator worker');
  });

  it('leave no stray argument unmentioned', () => {
    expect(problemsOf('frontend', ['--interactive', 'true'])).toEqual([
      'unexpected argument "true"; flags start with --, and a switch is set with --x=true',
    ]);
    expect(problemsOf('frontend', ['--no-interactive=true'])).toEqual([
      '--no-interactive takes no value; write --no-interactive',
    ]);
  });

  it('by an older spelling work and warn, with and without no-', () => {
    const { settings, warnings } = frontend(['--no-kv-events', '--track-output-blocks']);
    expect(settings.routerKvEvents).toBe(false);
    expect(settings.routerTrackOutputBlocks).toBe(true);
    expect(warnings).toContain('--kv-events is an older spelling of --router-kv-events');
    expect(warnings).toContain('--track-output-blocks is an older spelling of --router-track-output-blocks');
  });

  it('with several names: the first named wins and a difference warns', () => {
    const { settings, warnings } = frontend(['--ais-system', 'two', '--aic-system', 'one']);
    expect(settings.aicSystem).toBe('one');
    expect(warnings).toContain('--aic-system and --ais-system name the same setting and differ: --aic-system is used');
    expect(frontend(['--ais-system', 'two']).settings.aicSystem).toBe('two');
    const same = frontend(['--ais-system', 'x', '--aic-system', 'x']).warnings;
    expect(same.filter((warning) => warning.includes('differ'))).toEqual([]);
  });

  it('end at --: the rest goes only to the engine of a worker', () => {
    expect(worker(['--', '--http-port', 'x']).settings.engineArguments).toEqual(['--http-port', 'x']);
    expect(problemsOf('frontend', ['--', 'x'])).toEqual([
      'arguments after -- go to the engine of stator worker; stator frontend accepts none',
    ]);
  });
});

describe('variables', () => {
  it.each(['1', 'true', 'YES', ' on '])('%j is true', (text) => {
    expect(frontend([], { DYN_DEBUG_PERF: text }).settings.debugPerf).toBe(true);
  });

  it.each(['0', 'false', 'No', 'off', '', '  '])('%j is false', (text) => {
    expect(frontend([], { DYN_TOKENIZER_FALLBACK: text }).settings.tokenizerFallback).toBe(false);
  });

  it('with any other word for a boolean stop the start', () => {
    expect(problemsOf('frontend', [], { DYN_DEBUG_PERF: 'maybe' })).toEqual([
      'DYN_DEBUG_PERF "maybe": not a boolean, use 1, true, yes, on or 0, false, no, off; allowed: bool',
    ]);
  });

  it('that are empty are unset, or switch a threshold off', () => {
    const { settings, given } = frontend([], { DYN_HTTP_PORT: '', DYN_ROUTER_QUEUE_THRESHOLD: '', DYN_MODEL_NAME: '' });
    expect(settings.httpPort).toBe(8000);
    expect(settings.modelName).toBeUndefined();
    expect(settings.routerQueueThreshold).toBeNull();
    expect([...given.keys()].sort()).toEqual(['discoveryBackend', 'routerQueueThreshold']);
  });

  it.each(['None', 'none', 'null'])('%s switches a threshold off, by flag too', (text) => {
    expect(frontend(['--router-queue-threshold', text]).settings.routerQueueThreshold).toBeNull();
    expect(frontend([], { DYN_ROUTER_SNAPSHOT_THRESHOLD: text }).settings.routerSnapshotThreshold).toBeNull();
  });

  it('unknown under our prefixes warn once each with the nearest name', () => {
    const { warnings } = frontend([], { DYN_ROUTER_MODES: 'x', STATOR_ENGIN: 'y', OTHER: 'z' });
    expect(warnings).toContain('unknown variable DYN_ROUTER_MODES; did you mean DYN_ROUTER_MODE?');
    expect(warnings).toContain('unknown variable STATOR_ENGIN; did you mean STATOR_ENGINE?');
    expect(warnings).toHaveLength(2);
  });

  it('of another process are ignored without a word', () => {
    expect(frontend([], { STATOR_ENGINE: 'nonsense', DYN_OMNI_X: '1' }).warnings).toEqual([]);
  });

  it('with several names: the first named wins, the second works alone', () => {
    const both = frontend([], { DYN_HTTP_SVC_CHAT_PATH_ENV: '/a', DYN_HTTP_SVC_CHAT_PATH: '/b' });
    expect(both.settings.httpSvcChatPath).toBe('/a');
    expect(both.warnings[0]).toContain('DYN_HTTP_SVC_CHAT_PATH_ENV is used');
    expect(frontend([], { DYN_HTTP_SVC_CHAT_PATH: '/b' }).settings.httpSvcChatPath).toBe('/b');
  });

  it('with a deprecated name work, warn, and name the new one', () => {
    const { settings, warnings } = worker([], { DYN_WORKER_GRACEFUL_SHUTDOWN_TIMEOUT: '7' });
    expect(settings.runtimeGracefulShutdownTimeoutSecs).toBe(7);
    expect(warnings).toEqual([
      'DYN_WORKER_GRACEFUL_SHUTDOWN_TIMEOUT is deprecated: use DYN_RUNTIME_GRACEFUL_SHUTDOWN_TIMEOUT_SECS',
    ]);
  });
});

describe('values', () => {
  it.each([
    ['70000', 'out of range'],
    ['-1', 'out of range'],
    ['1.5', 'not a whole number'],
    ['8k', 'not a whole number'],
    ['', 'not a whole number'],
    ['99999999999999999999', 'too large'],
  ])('a port of %j is refused with what is allowed', (text, fault) => {
    expect(problemsOf('frontend', [`--http-port=${text}`])).toEqual([
      `--http-port ${JSON.stringify(text)}: ${fault}; allowed: port, 0-65535, 0 = any free`,
    ]);
  });

  it.each(['nan', 'inf', 'Infinity', '1e999', '0x10', '1,5'])('a number of %j is refused', (text) => {
    expect(problemsOf('frontend', [`--router-temperature=${text}`])).toHaveLength(1);
  });

  it('limits that exclude their end refuse it', () => {
    expect(problemsOf('worker', ['--engine=mocker', '--decode-speedup-ratio=0'])[0]).toContain('allowed: number, > 0');
  });

  it.each([
    ['#m', '#m is without a namespace before #'],
    ['a, dynamo#', 'dynamo# is without a model after #'],
  ])('a planned model of %j is refused', (text, fault) => {
    const [problem] = problemsOf('frontend', ['--planned-models', text]);
    expect(problem).toContain(`${fault}; allowed: list of models, [NAMESPACE#]MODEL`);
  });

  it.each([
    ['g6e.xlarge', 'g6e.xlarge is not like g6e.xlarge=1.86 or g6e.xlarge/spot=0.7'],
    ['g6e.xlarge=-1', 'not like'],
    ['g6e.xlarge/cheap=1', 'market cheap is none of on-demand, spot, reservation, capacity-block'],
    ['g6e.xlarge=100001', 'above 100000'],
    ['g6e.xlarge=1,g6e.xlarge/spot=2,g6e.xlarge/on-demand=3', 'two prices for g6e.xlarge/on-demand'],
  ])('a price of %j is refused', (text, fault) => {
    expect(problemsOf('frontend', ['--instance-prices', text])[0]).toContain(fault);
  });

  it.each([
    ['m=1', 'm=1 is not like my-model=0.5/1.5 or my-model=0.5/1.5/0.05'],
    ['=1/2', 'not like'],
    ['m=-1/2', 'not like'],
    ['m=1/2/3/4', 'not like'],
    ['m=1/100001', 'above 100000'],
    ['m=1/2,other=1/2,m=1/3', 'two prices for m'],
  ])('a price of tokens of %j is refused', (text, fault) => {
    const [problem] = problemsOf('frontend', ['--token-prices', text]);
    expect(problem).toContain(`${fault}`);
    expect(problem).toContain('allowed: list of prices, MODEL=IN/OUT[/CACHED]');
  });

  it('cached tokens cost as much as others unless they have a price', () => {
    const { settings } = frontend(['--token-prices', 'org/a:b=0.5/1.5', '--token-prices', 'c=1/2/0']);
    expect(settings.tokenPrices).toEqual([
      { model: 'org/a:b', inputUsd: 0.5, outputUsd: 1.5, cachedUsd: 0.5 },
      { model: 'c', inputUsd: 1, outputUsd: 2, cachedUsd: 0 },
    ]);
  });

  it('prices without a market are those on demand', () => {
    const { settings } = frontend(['--instance-prices', 'g6e.xlarge=1.86,p5.48xlarge/spot=20']);
    expect(settings.instancePrices).toEqual([
      { type: 'g6e.xlarge', market: 'on-demand', hourUsd: 1.86 },
      { type: 'p5.48xlarge', market: 'spot', hourUsd: 20 },
    ]);
  });

  it('words match with hyphens and underscores alike, in lower case only', () => {
    expect(frontend(['--router-mode', 'round_robin']).settings.routerMode).toBe('round-robin');
    expect(frontend(['--reasoning-field-name', 'reasoning-content']).settings.reasoningFieldName).toBe(
      'reasoning_content',
    );
    expect(problemsOf('frontend', ['--router-mode', 'Random'])[0]).toContain(
      'unknown value; allowed: round-robin, random',
    );
  });

  it('words whose feature is not built are refused with those that are', () => {
    expect(problemsOf('frontend', ['--tokenizer', 'basetenkenizer'])).toEqual([
      '--tokenizer "basetenkenizer": not built yet; allowed: default, fastokens',
    ]);
  });

  it("flags of an engine's parsers are refused at a frontend with where they belong", () => {
    for (const flag of ['--tool-call-parser', '--reasoning-parser']) {
      expect(problemsOf('frontend', ['--dyn-chat-processor=vllm', flag, 'hermes'])).toEqual([
        expect.stringMatching(`^${flag} is a flag of the engine: give it to stator worker`),
      ]);
    }
  });

  it('a static endpoint is refused with what to use in its place', () => {
    for (const argv of [['--static-endpoint', 'ns.backend.generate'], ['--static-endpoint=ns.backend.generate']]) {
      const [problem, ...more] = problemsOf('frontend', argv);
      expect(problem).toMatch(/^--static-endpoint is not accepted: .*--discovery-backend file.*--router-mode direct/);
      expect(more).toEqual([]);
    }
  });

  it('discovery back end kubernetes takes the facts of its pod, and a mode', () => {
    const argv = ['--discovery-backend', 'kubernetes'];
    const { settings } = frontend(argv, { POD_NAME: 'p', POD_UID: 'u', POD_NAMESPACE: 'n' });
    const pod = { podName: 'p', podUid: 'u', podNamespace: 'n', kubeDiscoveryMode: 'pod', mainContainerName: 'main' };
    expect(settings).toMatchObject({ discoveryBackend: 'kubernetes', ...pod });
    expect(problemsOf('frontend', argv, { DYN_KUBE_DISCOVERY_MODE: 'node' })).toEqual([
      'DYN_KUBE_DISCOVERY_MODE "node": unknown value; allowed: pod, container',
    ]);
  });

  it.each([
    [{ ETCD_ENDPOINTS: 'nats://a:2379' }, /^ETCD_ENDPOINTS "nats:.* scheme nats is not allowed/],
    [{ ETCD_AUTH_USERNAME: 'u' }, /ETCD_AUTH_USERNAME.*ETCD_AUTH_PASSWORD/],
    [{ ETCD_LEASE_TTL: '1' }, /^ETCD_LEASE_TTL "1": .*2/],
  ])('settings of etcd are checked: %j', (environment, problem) => {
    expect(problemsOf('frontend', ['--discovery-backend', 'etcd'], environment)).toEqual([
      expect.stringMatching(problem),
    ]);
  });

  it('a CA for etcd needs TLS in every URL of a member', () => {
    const surroundings = machineWith({ '/ca.pem': '' });
    const environment = { ETCD_AUTH_CA: '/ca.pem', ETCD_ENDPOINTS: 'https://a:2379,http://b:2379' };
    expect(problemsOf('frontend', ['--discovery-backend', 'etcd'], environment, { surroundings })).toEqual([
      'ETCD_AUTH_CA needs https: in each of ETCD_ENDPOINTS',
    ]);
  });

  it('routes start with a slash', () => {
    expect(problemsOf('frontend', [], { DYN_HTTP_SVC_LIVE_PATH: 'live' })).toEqual([
      'DYN_HTTP_SVC_LIVE_PATH "live": does not start with /; allowed: path, starts with /, the name with _ENV wins',
    ]);
  });

  it('files and folders exist, with ~ and $VAR expanded', () => {
    expect(worker(['--chat-template', '~/t.jinja']).settings.customJinjaTemplate).toBe('/home/user/t.jinja');
    const surroundings = machineWith({ '/models/t.jinja': '' }, ['/models/a'], { DIR: '/models' });
    const resolved = resolveConfig('worker', ['--engine=mocker', '--chat-template=$DIR/t.jinja'], {}, { surroundings });
    expect(resolved.settings.customJinjaTemplate).toBe('/models/t.jinja');
    expect(worker(['--model-path', '/models/a']).settings.modelPath).toBe('/models/a');
    expect(problemsOf('frontend', ['--model-path', '/nowhere'])).toEqual([
      '--model-path "/nowhere": no such folder, and not the name of a model; allowed: folder or model, a local model folder, or ORG/NAME[@REVISION] on the Hugging Face Hub',
    ]);
    const asFile = { surroundings: machineWith({ '/f': '' }) };
    expect(problemsOf('frontend', ['--model-path', '/f'], {}, asFile)[0]).toContain('is a file, not a folder');
  });

  it('the model path is a folder, or the name of a model on the hub if there is no such folder', () => {
    const surroundings = machineWith({}, ['org/name']);
    for (const name of ['org/name', 'Qwen/Qwen3-0.6B', 'org/n.a-m_e@v1.0', 'hf://org/name@refs/pr/7']) {
      expect(resolveConfig('frontend', ['--model-path', name], {}, { surroundings }).settings.modelPath).toBe(name);
    }
    for (const name of [
      'name',
      './org/name',
      '~/org/name',
      'a/b/c',
      '../name',
      'org/..',
      'org/a--b',
      'org/name@../x',
    ]) {
      expect(problemsOf('frontend', ['--model-path', name])[0]).toContain(
        'no such folder, and not the name of a model',
      );
    }
  });

  it('that leads below a file is refused, by its name', () => {
    expect(() => resolveConfig('frontend', [], { DYN_DISCOVERY_BACKEND: 'file', DYN_FILE_KV: '/dev/null/x' })).toThrow(
      'DYN_FILE_KV "/dev/null/x": lies below a file, not a folder',
    );
  });

  it.each(['@/dev/null/x', '/dev/null/x'])('of a JSON file, %s, that leads below a file is refused alike', (text) => {
    expect(() => resolveConfig('planner', [], { STATOR_PLANNER_FLEETS: text }, { allowMissing: true })).toThrow(
      `STATOR_PLANNER_FLEETS "${text}": /dev/null/x lies below a file, not a folder`,
    );
  });

  it('files that the process writes need not exist', () => {
    expect(frontend(['--dump-config-to', '/new/file.json']).settings.dumpConfigTo).toBe('/new/file.json');
  });

  it('a key file has exactly its size', () => {
    const surroundings = machineWith({ '/key': 'x'.repeat(31) });
    const argv = ['--router-tracking-key-file=/key'];
    expect(problemsOf('frontend', argv, {}, { surroundings })[0]).toContain('has 31 bytes, not 32');
  });

  it('JSON comes inline or from @file, with known keys only', () => {
    const reasoning = '{"thinking_ratio":0.5}';
    expect(worker(['--reasoning', reasoning]).settings.reasoning).toEqual({ thinking_ratio: 0.5 });
    const surroundings = machineWith({ '/r.json': reasoning, '/bad.json': '{' });
    const read = (text: string) =>
      problemsOf('worker', ['--engine=mocker', `--reasoning=${text}`], {}, { surroundings });
    expect(read('@/r.json')).toEqual([]);
    expect(read('@/none.json')[0]).toContain('no such file: /none.json');
    expect(read('@/bad.json')[0]).toContain('not JSON');
    expect(read('[1]')[0]).toContain('not a JSON object');
    expect(read('{"ratio":1}')[0]).toContain('unknown key "ratio"; allowed: JSON, a JSON object with keys');
  });

  it('JSON or a file is kept as what it is', () => {
    const surroundings = machineWith({ '/p.json': '{}' });
    const resolve = (text: string) =>
      resolveConfig('simulate', ['--prefill-engine-args', text], {}, { surroundings }).settings.prefillEngineArgs;
    expect(resolve('{"dp_size":1}')).toEqual({ kind: 'json', value: { dp_size: 1 } });
    expect(resolve('/p.json')).toEqual({ kind: 'file', path: '/p.json' });
    expect(problemsOf('simulate', ['--prefill-engine-args', '/q.json'])[0]).toContain('no such file: /q.json');
  });

  it('URLs have an allowed scheme', () => {
    const argv = ['--engine=openai', '--engine-url'];
    expect(problemsOf('worker', [...argv, 'http://h:1/v1'])).toEqual([]);
    expect(problemsOf('worker', [...argv, 'ftp://h'])[0]).toContain('scheme ftp is not allowed');
    for (const place of ['localhost:9000', '127.0.0.1:9000/v1', '[::1]:9000', 'gpu-1.lan:80'])
      expect(resolveConfig('worker', [...argv, place], {}).settings.engineUrl).toBe(`http://${place}`);
    expect(problemsOf('worker', [...argv, 'localhost:9000x'])[0]).toContain('scheme localhost is not allowed');
    expect(problemsOf('frontend', [], { NATS_SERVER: 'localhost:4222' })[0]).toContain('write nats://localhost:4222');
    expect(problemsOf('worker', [...argv, 'localhost'])[0]).toContain('not a URL; allowed: URL, http, https');
    const servers = frontend([], { NATS_SERVER: 'nats://a:1, wss://b' }).settings.natsServer;
    expect(servers).toEqual(['nats://a:1', 'wss://b']);
  });

  it('brokers have an address on each side', () => {
    const read = (text: string) => frontend([], { DYN_ZMQ_BROKER_URL: text }).settings.zmqBrokerUrl;
    expect(read('xsub=tcp://a:5555;tcp://b:5555 , xpub=tcp://a:5556;tcp://[::1]:5556')).toEqual({
      xsub: ['tcp://a:5555', 'tcp://b:5555'],
      xpub: ['tcp://a:5556', 'tcp://[::1]:5556'],
    });
    const problemOf = (text: string) => problemsOf('frontend', [], { DYN_ZMQ_BROKER_URL: text })[0];
    expect(problemOf('xsub=tcp://a:5555')).toContain('has no xpub=');
    expect(problemOf('xsub=a:5555,xpub=tcp://a:5556')).toContain('"a:5555" is not tcp://HOST:PORT');
    expect(problemOf('tcp://a:5555')).toContain('is not xsub=... or xpub=...');
  });

  it('log filters name levels', () => {
    expect(frontend([], { DYN_LOG: 'warn,router=debug' }).settings.log).toBe('warn,router=debug');
    expect(problemsOf('frontend', [], { DYN_LOG: 'loud' })[0]).toContain('"loud" has no level');
  });

  it('lists of ports and of words are read', () => {
    expect(frontend(['--router-mode=kv', '--roles', 'http router']).settings.roles).toEqual(['http', 'router']);
    expect(problemsOf('frontend', ['--roles', 'root'])[0]).toContain(
      'unknown value; allowed: list, http, grpc, router',
    );
    expect(worker(['--zmq-kv-events-ports', '1,2']).settings.zmqKvEventsPorts).toEqual([1, 2]);
    expect(problemsOf('worker', ['--engine=mocker', '--bootstrap-ports', '1,x'])[0]).toContain(
      'x is not a whole number',
    );
    const sweeps = resolveConfig('simulate', ['--sweep', 'a=1,2', '--sweep', 'b=3'], {}).settings.sweep;
    expect(sweeps).toEqual(['a=1,2', 'b=3']);
  });

  it('a secret that is too short is refused without being shown', () => {
    const problems = problemsOf('frontend', [], { STATOR_PLANE_TOKEN: 'hunter2' });
    expect(problems).toEqual(['STATOR_PLANE_TOKEN "***": too short; allowed: secret, >= 32 characters']);
  });

  it('lenient settings fall back with a warning', () => {
    const { settings, warnings, given } = frontend([], { DYN_CONTEXT_WINDOW: 'big', DYN_METRICS_TTFT_COUNT: '0' });
    expect(settings.contextWindow).toBeUndefined();
    expect(settings.metricsTtftCount).toBe(18);
    expect(warnings.filter((warning) => warning.endsWith('ignored'))).toHaveLength(2);
    expect(given.has('metricsTtftCount')).toBe(false);
  });

  it('all problems are reported at once', () => {
    expect(problemsOf('frontend', ['--http-port=x', '--nope=1'], { DYN_DEBUG_PERF: '?' })).toHaveLength(3);
  });
});

describe('defaults', () => {
  it.each([
    ['only IPv4', ['10.0.0.7'], '0.0.0.0'],
    ['both', ['10.0.0.7', 'fd00::7'], '0.0.0.0'],
    ['only IPv6', ['169.254.172.2', 'fe80::1', 'fd00::7'], '::'],
    ['no network', [], '0.0.0.0'],
  ])('listen at every address by which others reach a machine with %s', (_what, addresses, host) => {
    const surroundings = { ...machineWith(), interfaces: () => ({ eth0: addresses.map(interfaceOf) }) };
    const resolve = (process: Process, argv: readonly string[] = [], env: Env = {}) =>
      resolveConfig(process, argv, env, { surroundings, allowMissing: true }).settings;
    expect(resolve('frontend')).toMatchObject({ httpHost: host });
    expect(resolve('worker')).toMatchObject({ systemHost: host });
    expect(resolve('router')).toMatchObject({ systemHost: host });
    expect(resolve('host')).toMatchObject({ hostAddress: host });
    expect(resolve('local')).toMatchObject({ httpHost: '127.0.0.1' });
    expect(resolve('frontend', ['--http-host', '0.0.0.0'])).toMatchObject({ httpHost: '0.0.0.0' });
    expect(resolve('worker', [], { DYN_SYSTEM_HOST: '0.0.0.0' })).toMatchObject({ systemHost: '0.0.0.0' });
  });

  it('can differ by process', () => {
    expect(resolveConfig('local', [], {}).settings).toMatchObject({
      httpHost: '127.0.0.1',
      numWorkers: 2,
      engine: 'mocker',
    });
    expect(frontend([]).settings.httpHost).toBe('0.0.0.0');
    expect(worker([]).settings).toMatchObject({ numWorkers: 1, namespace: 'dynamo' });
    expect(frontend([]).settings.namespace).toBeUndefined();
    expect(resolveConfig('function', [], {}).settings.loggingJsonl).toBe(true);
  });

  it('can follow from other settings', () => {
    expect(resolveConfig('local', [], {}).settings.discoveryBackend).toBe('file');
    expect(resolveConfig('frontend', [], {}).settings.discoveryBackend).toBe('file');
    expect(resolveConfig('function', [], {}).settings.discoveryBackend).toBe('mem');
    const cloud = resolveConfig('frontend', [], { STATOR_DISCOVERY_TABLE: 't' }).settings;
    expect(cloud.discoveryBackend).toBe('dynamodb');
    const planeOf = (backend: string) =>
      resolveConfig('frontend', [], { DYN_DISCOVERY_BACKEND: backend, STATOR_DISCOVERY_TABLE: 't' }).settings
        .eventPlane;
    expect(['file', 'mem', 'dynamodb'].map(planeOf)).toEqual(['zmq', 'zmq', 'nats']);
    expect(worker([]).settings.blockSize).toBe(64);
    expect(worker(['--engine-type=trtllm']).settings.blockSize).toBe(32);
    expect(worker(['--namespace=a'], { DYN_NAMESPACE_WORKER_SUFFIX: 'b' }).settings.endpoint).toBe(
      'dyn://a-b.backend.generate',
    );
    expect(worker(['--disaggregation-mode=prefill']).settings.endpoint).toBe('dyn://dynamo.prefill.generate');
  });

  it('are absent for what must be given', () => {
    expect(problemsOf('worker', [])).toEqual([`--engine is required: ${TABLE.get('engine')?.allowed}`]);
    expect(problemsOf('worker', [], {}, { allowMissing: true })).toEqual([]);
  });
});

describe('names that do nothing in this version', () => {
  it('are accepted with one line each that says what they are about and what to use, by flag and by variable', () => {
    const argv = ['--frontend-route-extension', 'a.js', '--frontend-route-extension=b.js', '--http-port=1'];
    const { settings, given, warnings } = frontend(argv, {
      POD_NAME: 'p',
      DYN_COMPONENT: 'x',
      DYN_LOGGING_CONFIG_PATH: 'y',
    });
    expect(settings.httpPort).toBe(1);
    expect([...given.keys()].sort()).toEqual(['discoveryBackend', 'httpPort', 'podName']);
    expect(warnings).toEqual([
      '--frontend-route-extension is accepted, but does nothing in this version (routes from modules): use your own program around createFrontend of the package',
      'DYN_LOGGING_CONFIG_PATH is accepted, but does nothing in this version (logging configuration by file): use DYN_LOG and DYN_LOGGING_JSONL',
    ]);
  });

  it.each([
    [
      ['--benchmark-mode', 'fast', '--benchmark-quiet', '--seed=1'],
      ['--benchmark-mode', '--benchmark-quiet'],
    ],
    [['--no-fpm-trace', '--seed=1'], ['--no-fpm-trace']],
    [['--num-host-blocks', '-1', '--seed=1'], ['--num-host-blocks']],
    [['--fpm-trace', '--seed=1'], ['--fpm-trace']],
  ])('%j: a switch, a value and a pattern leave the flags around them alone', (argv, names) => {
    const { settings, warnings } = worker(argv);
    expect(settings.seed).toBe(1);
    expect(warnings.map((warning) => warning.split(' ')[0])).toEqual(names);
  });

  it('are known by a pattern, but not where the table has the name', () => {
    const env = { DYN_OMNI_SIZE: '3', DYN_MM_HTTP_X: '1', DYN_MM_MAX_REQUEST_MB: '1', DYN_MM_ALLOW_INTERNAL: '1' };
    const { settings, warnings } = worker([], env);
    expect(settings.mmAllowInternal).toBe(true);
    expect(warnings.map((warning) => warning.split(' is ')[0])).toEqual([
      'DYN_OMNI_SIZE',
      'DYN_MM_HTTP_X',
      expect.stringContaining('unknown variable DYN_MM_MAX_REQUEST_MB'),
    ]);
  });

  it.each(UNBUILT.map((unbuilt) => [unbuilt.about, unbuilt] as const))('never fail a start: %s', (_, unbuilt) => {
    const names = unbuilt.names.split(' ').map((name) => name.replaceAll('*', 'some'));
    const flags = names.filter((name) => name.startsWith('--'));
    const variables = names.filter((name) => !name.startsWith('--'));
    for (const process of unbuilt.usedBy) {
      const needed = process === 'worker' ? ['--engine=mocker'] : [];
      const env = { ...Object.fromEntries(variables.map((name) => [name, '?'])), DYN_DISCOVERY_BACKEND: 'file' };
      const argv = process === 'function' ? [] : [...needed, ...flags.flatMap((flag) => [flag, '?'])];
      const { warnings } = resolveConfig(process, argv, env, { surroundings: machineWith() });
      const said = process === 'function' ? variables : names;
      expect(warnings.map((warning) => warning.split(' is accepted, but does nothing')[0]).sort()).toEqual(
        [...said].sort(),
      );
    }
  });

  it('are hinted at when misspelt, and named with the command that takes them elsewhere', () => {
    expect(problemsOf('worker', ['--engine=mocker', '--fpm-trase'])).toEqual([
      'unknown flag --fpm-trase; did you mean --fpm-trace?',
    ]);
    expect(frontend([], { DYN_FRONTEND_JEMALOC: '1' }).warnings).toEqual([
      'unknown variable DYN_FRONTEND_JEMALOC; did you mean DYN_FRONTEND_JEMALLOC?',
    ]);
    expect(problemsOf('frontend', ['--fpm-trace'])).toEqual([
      '--fpm-trace belongs to stator worker, not to stator frontend',
    ]);
  });

  it('are silent when nothing of them is set, or set to nothing', () => {
    expect(frontend(['--http-port', '1'], { POD_NAME: '' }).warnings).toEqual([]);
  });
});
