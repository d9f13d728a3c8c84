import { App, Stack } from 'aws-cdk-lib';
import { Annotations, Match } from 'aws-cdk-lib/assertions';
import { AttributeType, Table } from 'aws-cdk-lib/aws-dynamodb';
import { describe, expect, it } from 'vitest';
import { completeEnvironment } from '../../infra/constructs/given-environment.ts';
import { readSettings, type StatorConfig } from '../../infra/settings/index.ts';
import { faultOfVariable, type Process, type Row, rowOfVariable, TABLE } from '../../shared/config/index.ts';
import { devStack, devTemplate, openApp, productionTemplates, type Resource } from './templates.ts';

type Values = Record<string, string | number | boolean>;
interface Role {
  readonly role: string;
  readonly process: Process;
  readonly path: string;
  readonly config: (environment: Values) => StatorConfig;
  /** Variables that the deployment sets and the file may set otherwise. */
  readonly defaults: readonly string[];
}

const ROLES: readonly Role[] = [
  {
    role: 'function',
    process: 'function',
    path: 'edges.function.environment',
    config: (environment) => ({ edges: { function: { environment } } }),
    defaults: ['DYN_LOG', 'DYN_ENABLE_ANTHROPIC_API', 'DYN_HTTP_SSE_KEEP_ALIVE_INTERVAL_MS', 'DYN_ROUTER_MODE'],
  },
  {
    role: 'edge',
    process: 'frontend',
    path: 'edges.container.environment',
    config: (environment) => ({ edges: { container: { environment } } }),
    defaults: [
      'DYN_LOG',
      'DYN_ENABLE_ANTHROPIC_API',
      'DYN_ROUTER_MODE',
      'DYN_ROUTER_REPLICA_SYNC',
      'STATOR_ARTIFACTS_CACHE_DIR',
      'STATOR_NATS_STREAM_MAX_MB',
    ],
  },
  {
    role: 'worker',
    process: 'worker',
    path: 'fleets.mock.environment',
    config: (environment) => ({ fleets: { mock: { kind: 'mock', model: 'stator-mini', environment } } }),
    defaults: ['DYN_LOG', 'STATOR_NATS_STREAM_MAX_MB'],
  },
];

const IMAGES = { edge: 'registry.example/stator:1' };
/** One of them is a value of nearly every setting. */
const SAMPLES = [
  '2',
  '0.5',
  'true',
  'a',
  '/a',
  '/tmp/a',
  'http://a.example:1',
  '{}',
  '[]',
  '20',
  '120',
  '4096',
  '65536',
  'tcp://a:1',
  'a=b',
];

function sampleOf(process: Process, row: Row, name: string): string | undefined {
  const shown = row.default === undefined || row.default === null ? [] : [row.type.show(row.default)];
  const words = row.allowed.split(/[\s,]+/);
  const paths = row.type.target === undefined ? [] : ['/tmp/a'];
  return [...paths, ...shown, ...SAMPLES, ...words].find((text) => faultOfVariable(process, name, text) === undefined);
}

const problemOf = (given: StatorConfig): string | undefined => {
  try {
    readSettings(given, 'file');
    return undefined;
  } catch (thrown) {
    return (thrown as Error).message;
  }
};

describe.each(ROLES)('the environment that stator.config.ts gives to: $role', ({ process, path, config, defaults }) => {
  const rows = [...TABLE.values()].filter(({ usedBy }) => usedBy.includes(process));
  const variables = rows.flatMap((row) => [...row.env, ...row.olderEnv].map((name) => ({ name, row })));

  it('takes each setting of the table, or says why not, and never without its name', () => {
    expect(variables.length).toBeGreaterThan(100);
    const taken = variables.filter(({ name, row }) => {
      const text = row.type.isSecret ? 'x'.repeat(64) : sampleOf(process, row, name);
      const problem = problemOf({ images: IMAGES, ...config({ [name]: text ?? '1' }) });
      if (problem !== undefined) expect(problem).toMatch(new RegExp(`^file: ${path}.${name}: .{10,}`));
      if (row.type.isSecret) expect(problem).toMatch(/is a secret, and anyone who can see the deployment/);
      return problem === undefined;
    });
    // Those of its own are few.
    expect(taken.length / variables.length).toBeGreaterThan(0.7);
  });

  it('goes through the checks that the process makes when it starts', () => {
    for (const { name, row } of variables) {
      const text = sampleOf(process, row, name);
      if (text === undefined || problemOf({ images: IMAGES, ...config({ [name]: text }) }) !== undefined) continue;
      const told = { process, own: {}, given: { [name]: text }, secrets: [], path };
      try {
        const argv = process === 'worker' ? ['--engine=mocker', '--model-name=a'] : [];
        expect(completeEnvironment(new Stack(new App()), { ...told, argv })[name]).toBe(text);
      } catch (thrown) {
        expect(String(thrown)).toMatch(new RegExp(`^Error: ${path}: .*(${row.flags.join('|')}|${name})`));
      }
    }
  });

  it('refuses unknown names, with the nearest known one', () => {
    expect(problemOf(config({ DYN_LOGG: 'debug' }))).toBe(
      `file: ${path}.DYN_LOGG: unknown variable; did you mean DYN_LOG?`,
    );
    expect(problemOf(config({ QQQ: 1 }))).toBe(
      `file: ${path}.QQQ: unknown variable; docs/configuration.md lists them all`,
    );
  });

  it('refuses each variable that the deployment sets, but for defaults', () => {
    const templates = [devTemplate(), ...Object.values(productionTemplates())];
    const set = new Set(templates.flatMap((template) => variablesIn(template.toJSON(), process)));
    expect(set.size).toBeGreaterThan(5);
    const allowed = [...set].filter((name) => {
      const row = rowOfVariable(process, name);
      return row !== undefined && problemOf(config({ [name]: sampleOf(process, row, name) ?? '1' })) === undefined;
    });
    expect(allowed.sort()).toEqual(defaults.filter((name) => set.has(name)).sort());
    expect(defaults.filter((name) => !set.has(name))).toEqual([]);
  });
});

/** Names that a template gives to processes of one kind. */
function variablesIn(template: unknown, process: Process): readonly string[] {
  const { Resources } = template as { Resources: Record<string, Resource> };
  return Object.values(Resources).flatMap(({ Type, Properties = {} }) => {
    if (Type === 'AWS::Lambda::Function' && process === 'function') {
      const { Environment } = Properties as { Environment?: { Variables: Record<string, unknown> } };
      return Object.keys(Environment?.Variables ?? {});
    }
    const { ContainerDefinitions = [] } = Properties as {
      ContainerDefinitions?: { Command?: string[]; Environment?: { Name: string }[]; Secrets?: { Name: string }[] }[];
    };
    const own = ContainerDefinitions.filter(({ Command }) => Command?.[0] === process);
    return own.flatMap(({ Environment = [], Secrets = [] }) => [...Environment, ...Secrets].map(({ Name }) => Name));
  });
}

describe('what stator.config.ts gives', () => {
  const worker = (given: object) => ({
    fleets: { mock: { kind: 'mock' as const, model: 'stator-mini', ...given } },
  });

  it.each<[StatorConfig, string | RegExp]>([
    [
      { edges: { function: { environment: { DYN_ROUTER_TEMPERATURE: 'warm' } } } },
      /DYN_ROUTER_TEMPERATURE: "warm": .*allowed: number/,
    ],
    [
      { edges: { function: { environment: { DYN_HTTP_PORT: 1 } } } },
      /DYN_HTTP_PORT: is read by frontend, local.*, not by the function/,
    ],
    [{ edges: { function: { environment: { DYN_LOG: '' } } } }, /DYN_LOG: is empty/],
    [
      { edges: { function: { environment: { STATOR_HOLD_TIMEOUT: 5 } } } },
      /STATOR_HOLD_TIMEOUT: is limits\.holdSecs of this file/,
    ],
    [
      { edges: { function: { environment: { STATOR_MAX_TOKENS_DEFAULT: 5 } } } },
      /STATOR_MAX_TOKENS_DEFAULT: is limits\.maxTokensFunction of this file/,
    ],
    [
      { edges: { function: { environment: { OTEL_EXPORTER_OTLP_ENDPOINT: 'https://me:pass@a.example' } } } },
      /OTEL_EXPORTER_OTLP_ENDPOINT: holds a password in its URL/,
    ],
    [
      { edges: { function: { environment: { DYN_ROUTER_POLICY_CONFIG: '/etc/policy.yaml' } } } },
      /DYN_ROUTER_POLICY_CONFIG: names a file, and the function has nothing but its code/,
    ],
    [
      { edges: { container: { environment: { DYN_ROUTER_POLICY_CONFIG: '/etc/policy.yaml' } } } },
      /DYN_ROUTER_POLICY_CONFIG: names a file, which the built image has not: set images\.edge/,
    ],
    [
      { edges: { container: { environment: { STATOR_ARTIFACTS_CACHE_DIR: '/var/cache' } } } },
      /STATOR_ARTIFACTS_CACHE_DIR: "\/var\/cache": must lie in \/tmp\//,
    ],
    [
      { edges: { container: { environment: { POD_NAME: 'a' } } } },
      /POD_NAME: is of Kubernetes, and the processes find each other in the table/,
    ],
    [
      // biome-ignore lint/suspicious/noExplicitAny: what a file in JSON may hold
      { edges: { container: { environment: { DYN_LOG: null as any } } } },
      /edges\.container\.environment\.DYN_LOG: must be a text, a number, true or false/,
    ],
    [worker({ environment: { VLLM_LOGGING_LEVEL: 'DEBUG' } }), /VLLM_LOGGING_LEVEL: unknown variable/],
    [worker({ arguments: ['--speedup-ratio=fast'] }), /fleets\.mock\.arguments: --speedup-ratio "fast": .*number/],
    [worker({ arguments: ['--speedup-ration=2'] }), /fleets\.mock\.arguments: .*--speedup-ratio/],
    [worker({ arguments: ['--request-plane=nats'] }), /fleets\.mock\.arguments: --request-plane is how the processes/],
    [worker({ arguments: ['--num-workers=2'] }), /fleets\.mock\.arguments: --num-workers is workers of the fleet/],
    [worker({ arguments: ['--model-name=b'] }), /fleets\.mock\.arguments: --model-name is model of the fleet/],
    [worker({ arguments: ['--planner-profile-data=/etc/p'] }), /--planner-profile-data names a file or folder, which/],
  ])('is refused where it cannot be: %j', (given, message) => {
    expect(problemOf(given)).toMatch(message);
  });

  it('reaches function, container edge and workers, and takes the place of defaults', () => {
    const template = devTemplate({
      edges: {
        function: { environment: { DYN_LOG: 'debug', DYN_ROUTER_TEMPERATURE: 0.5 } },
        container: { environment: { STATOR_INDEX_MAX_MB: 512 } },
      },
      ...worker({ environment: { DYN_TOOL_CALL_PARSER: 'hermes' }, arguments: ['--speedup-ratio=4'] }),
    });
    template.hasResourceProperties('AWS::Lambda::Function', {
      Environment: { Variables: Match.objectLike({ DYN_LOG: 'debug', DYN_ROUTER_TEMPERATURE: '0.5' }) },
    });
    const text = JSON.stringify(template.toJSON());
    expect(text).toContain('{"Name":"STATOR_INDEX_MAX_MB","Value":"512"}');
    expect(text.split('{"Name":"DYN_TOOL_CALL_PARSER","Value":"hermes"}')).toHaveLength(3); // two workers
    expect(text.split('"--speedup-ratio=4"')).toHaveLength(3);
    const production = productionTemplates({ ...worker({ arguments: ['--speedup-ratio=4'] }) });
    expect(JSON.stringify(production['Fleet-mock']?.toJSON())).toContain('"--speedup-ratio=4"');
  });

  it('is held against what the deployment itself says: what excludes it ends the synthesis, what it misses is a warning', () => {
    const conflicting = { edges: { container: { environment: { DYN_ROUTER_MODE: 'random' } } } };
    expect(() => devStack(openApp(), conflicting)).toThrow(/^edges\.container\.environment: .*needs --router-mode kv/);
    const long = { OTEL_RESOURCE_ATTRIBUTES: `a=${'b'.repeat(4000)}` };
    expect(() => devStack(openApp(), { edges: { function: { environment: long } } })).toThrow(
      /4096 bytes of variables are taken/,
    );
    const idle = { edges: { function: { environment: { DYN_ROUTER_MODE: 'random', DYN_ROUTER_TEMPERATURE: 0.7 } } } };
    Annotations.fromStack(devStack(openApp(), idle)).hasWarning(
      '*',
      Match.stringLikeRegexp(
        '^edges\\.function\\.environment: DYN_ROUTER_TEMPERATURE has no effect: it needs --router-mode kv',
      ),
    );
  });
});

describe('the bytes that a function takes of variables', () => {
  /** Variables of a function in a stack whose name is as long as it may be, with one whose value CloudFormation makes. */
  const complete = (attributes: string) => {
    const stack = new Stack(new App(), `${'N'.repeat(64)}-Data`);
    const { tableName } = new Table(stack, 'PassedSecretsTable', {
      partitionKey: { name: 'pk', type: AttributeType.STRING },
    });
    return completeEnvironment(stack, {
      process: 'function',
      own: { STATOR_SECRETS_TABLE: tableName },
      given: { OTEL_RESOURCE_ATTRIBUTES: attributes },
      secrets: [],
      path: 'edges.function.environment',
      bytesMax: 4096,
    });
  };
  /** As Lambda is given them. A name has that of the stack, of what it is, and twelve more characters. */
  const made = `${'N'.repeat(64)}-Data-StorePassedSecretsTable9A105642-1A2B3C4D5E6F`;
  const bytesOf = (attributes: string) =>
    Buffer.byteLength(JSON.stringify({ STATOR_SECRETS_TABLE: made, OTEL_RESOURCE_ATTRIBUTES: attributes }));

  it.each(['b', 'é', '"'])('are those of the JSON that it is given, with names of resources: %s', (letter) => {
    const size = bytesOf(`a=${letter}`) - bytesOf('a=');
    const most = `a=${letter.repeat(Math.floor((4096 - bytesOf('a=')) / size))}`;
    expect(bytesOf(most)).toBeLessThanOrEqual(4096);
    expect(() => complete(`${most}${letter}`)).toThrow(
      /^edges\.function\.environment: 4096 bytes of variables are taken in all, and these are 4\d\d\d$/,
    );
    expect(complete(most.slice(0, -20)).OTEL_RESOURCE_ATTRIBUTES).toHaveLength(most.length - 20);
  });
});
