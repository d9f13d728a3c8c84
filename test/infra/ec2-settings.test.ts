import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import config from '../../infra/examples/ec2.config.ts';
import { readSettings, SettingsError } from '../../infra/settings/index.ts';

const MODELS = { models: { m: {} } };
const IMAGE = `registry.example/worker@sha256:${'0'.repeat(64)}`;
const ZONES = ['eu-west-1a', 'eu-west-1b', 'eu-west-1c'];

/** A fleet of one option, with what differs. */
const fleet = (option: object = {}, more: object = {}) => ({
  kind: 'ec2',
  model: 'm',
  engine: { image: IMAGE },
  options: [{ types: ['g6e.12xlarge'], max: 4, ...option }],
  replicas: { max: 4 },
  ...more,
});
const reading = (a: object, more: object = {}) => readSettings({ ...MODELS, ...more, fleets: { a } }, 'file');
const RESERVED = { zones: ['eu-west-1b'], reservationId: 'cr-0123456789abcdef0' };
const named = { network: { availabilityZones: ZONES } };

describe('the settings of a fleet on EC2', () => {
  it('have a default for each', () => {
    expect(reading(fleet()).fleets.a).toMatchObject({
      pool: 'agg',
      engine: { kind: 'vllm', gpusPerReplica: 1, args: [] },
      options: [{ market: 'on-demand' }],
      replicas: { min: 0, max: 4 },
      startSecs: 480,
      drainSecs: 900,
      efa: false,
    });
  });

  it('take what the example has, and every market', () => {
    expect(Object.keys(readSettings(config, 'file').fleets)).toEqual(['chat', 'code-prefill', 'code-decode']);
    const markets = [
      { market: 'spot' },
      { market: 'reservation', ...RESERVED },
      { market: 'capacity-block', ...RESERVED, types: ['p5.48xlarge'], endsAt: '2027-01-31T11:30:00Z' },
    ];
    for (const market of markets) expect(() => reading(fleet(market), named)).not.toThrow();
  });

  it('take a type that Stator does not know, with its facts, and another price of one that it knows', () => {
    const facts = { gpus: 4, gpuMemoryMib: 1000, vcpus: 8, memoryGib: 64 };
    const instanceTypes = { 'g9.large': facts, 'g6e.12xlarge': { hourUsd: 5 } };
    expect(() => reading(fleet({ types: ['g9.large'] }), { instanceTypes })).not.toThrow();
  });

  it.each<[object, string]>([
    [
      fleet({ types: ['g6e.12xlarg'] }),
      'options.0.types.0: g6e.12xlarg: no known type with GPUs; did you mean g6e.12xlarge?',
    ],
    [fleet({ types: ['x'] }), 'options.0.types.0: must be the name of a type of EC2, such as g6e.12xlarge; it is "x"'],
    [fleet({ types: [] }), 'options.0.types: must have at least 1 entry'],
    [
      fleet({ market: 'spot', types: ['g6e.12xlarge', 'g6e.48xlarge'] }),
      'options.0.types.1: g6e.48xlarge: has 8 GPUs of 45776 MiB, and g6e.12xlarge has 4 GPUs of 45776 MiB: allowed are types alike in both',
    ],
    [
      fleet({ market: 'spot', types: ['g6e.12xlarge', 'g6.12xlarge'] }),
      'options.0.types.1: g6.12xlarge: has 4 GPUs of 22888 MiB, and',
    ],
    [
      fleet({}, { engine: { image: IMAGE, gpusPerReplica: 3 } }),
      'options.0.types.0: g6e.12xlarge: has 4 GPUs, and engine.gpusPerReplica is 3: allowed are 1, 2, 4',
    ],
    [
      fleet({}, { engine: { image: IMAGE, gpusPerReplica: 8 } }),
      'engine.gpusPerReplica is 8: allowed are 1, 2, 4: a replica runs on one machine',
    ],
    [fleet({ market: 'capacity-block' }), 'options.0.reservationId: is missing: market capacity-block needs the id'],
    [fleet({ market: 'capacity-block' }), 'options.0.zones: is missing: market capacity-block needs one zone'],
    [fleet({ market: 'capacity-block' }), 'options.0.endsAt: is missing: a capacity block ends'],
    [fleet({ market: 'reservation' }), 'options.0.reservationId: is missing: market reservation needs the id'],
    [
      fleet({ market: 'reservation', zones: ZONES }),
      'options.0.zones: has 3 entries: market reservation needs one zone',
    ],
    [
      fleet({ market: 'capacity-block', ...RESERVED, endsAt: '2027-01-31T11:30:00Z' }),
      'options.0.types: g6e.12xlarge: is not sold in capacity blocks: allowed are types of the P family',
    ],
    [
      fleet({ market: 'capacity-block', ...RESERVED, warmPool: {} }),
      'options.0.warmPool: is not allowed with market capacity-block',
    ],
    [
      fleet({ reservationId: 'cr-0123456789abcdef0' }),
      'is for market reservation or capacity-block, and market is on-demand',
    ],
    [fleet({ endsAt: '2027-01-31T11:30:00Z' }), 'options.0.endsAt: 2027-01-31T11:30:00Z: is for market reservation'],
    [fleet({ endsAt: 'soon' }), 'options.0.endsAt: must be a time in UTC, as 2027-01-31T11:30:00Z; it is "soon"'],
    [
      fleet({ market: 'reservation', ...RESERVED, types: ['g6.xlarge', 'g6.2xlarge'] }),
      'types: has 2 entries: market reservation allows 1',
    ],
    [
      fleet({ market: 'cheap' }),
      'options.0.market: "cheap": allowed are "on-demand"|"spot"|"reservation"|"capacity-block"',
    ],
    [fleet({ warmPool: { min: 5 } }), 'options.0.warmPool.min: 5: must be at most max (4)'],
    [
      fleet({ warmPool: { state: 'Hibernated' } }),
      'options.0.warmPool.state: "Hibernated": allowed are "Stopped"|"Running"',
    ],
    [fleet({ zones: ['eu-west-1a', 'eu-west-1a'] }), 'options.0.zones.1: eu-west-1a: is named twice'],
    [
      fleet({ zones: ['eu-west-2a'] }),
      'options.0.zones.0: eu-west-2a: no zone of the network, which has eu-west-1a, eu-west-1b',
    ],
    [fleet({ max: 0 }), 'options.0.max: 0: allowed are 1 to 500'],
    [
      fleet({ max: 1 }, { replicas: { max: 5 } }),
      'replicas.max: 5: the max of all options have room for 4: allowed are 1 to 4',
    ],
    [fleet({}, { replicas: { min: 3, max: 2 } }), 'replicas.min: 3: must be at most replicas.max (2)'],
    [fleet({}, { efa: true }), 'options.0.zones: is missing: efa: true needs one zone'],
    [
      fleet({ types: ['g6.xlarge'], zones: ['eu-west-1a'] }, { efa: true }),
      'g6.xlarge: has 0 EFA interfaces: efa: true needs',
    ],
    [fleet({}, { engine: { image: 'worker' } }), 'engine.image: must be the whole address of an image'],
    [
      fleet({}, { engine: { image: 'registry.example/worker' } }),
      'engine.image: must be the whole address of an image',
    ],
    [
      fleet({}, { weights: { uri: 's3://bucket/a', bytes: 1 } }),
      'weights.uri: must be a folder of a bucket and end with /',
    ],
    [fleet({}, { weights: { uri: 's3://bucket/a/', bytes: 0 } }), 'weights.bytes: 0: allowed are 1 to 10000000000000'],
    [
      fleet({}, { engine: { image: IMAGE, kind: 'sglang' }, weights: { uri: 's3://bucket/a/', bytes: 1 } }),
      'weights.mode: "stream": engine.kind sglang allows "disk" only',
    ],
    [fleet({}, { startSecs: 10 }), 'startSecs: 10: allowed are 30 to 7200'],
    [fleet({}, { ami: { parameter: 'ami-1' } }), 'ami.parameter: must be the name of a parameter of Systems Manager'],
    [fleet({}, { environment: { DYN_SYSTEM_PORT: 1 } }), 'environment.DYN_SYSTEM_PORT: is what security groups'],
    [fleet({}, { arguments: ['--num-workers=2'] }), 'arguments: --num-workers is workers of the fleet'],
    [fleet({ typs: [] }), 'options.0.typs: unknown key; did you mean types?'],
    [fleet({}, { worker: 1 }), 'fleets.a.worker: unknown key; known are kind, model, pool, generation, engine'],
    [fleet({}, { engine: { image: IMAGE, imag: 1 } }), 'fleets.a.engine.imag: unknown key; did you mean image?'],
    [{ kind: 'ec3', model: 'm' }, 'fleets.a.kind: "ec3": allowed are "mock"|"ec2"'],
  ])('refuse $1', (given, message) => {
    expect(() => reading(given, named)).toThrow(message);
  });

  it('refuse zones while those of the network have no names', () => {
    expect(() => reading(fleet({ zones: ['eu-west-1a'] }))).toThrow(
      'fleets.a.options.0.zones: eu-west-1a: needs network.availabilityZones, or network.vpc, so that zones have names',
    );
  });

  it('refuse two fleets for one pool of a model, and one pool for all beside a half', () => {
    const two = (one: object, other: object) => () =>
      readSettings({ ...MODELS, fleets: { a: fleet({}, one), b: fleet({}, other) } }, 'file');
    expect(two({}, {})).toThrow('fleets.b.pool: agg: fleets.a has pool agg of the same model and generation');
    expect(two({ pool: 'decode' }, {})).toThrow('fleets.b.pool: agg: fleets.a has pool decode of the same model');
    expect(two({ pool: 'decode' }, { pool: 'prefill' })).not.toThrow();
    expect(two({ generation: 'a' }, { generation: 'b' })).not.toThrow();
  });

  it('say which facts of an unknown type are missing', () => {
    expect(() => reading(fleet(), { instanceTypes: { 'g9.large': { gpus: 1 } } })).toThrow(
      'instanceTypes.g9.large.vcpus: is missing: Stator does not know this type, and needs its facts',
    );
  });

  it('throw only problems that name a field, whatever the file holds', { timeout: 60_000 }, () => {
    fc.assert(
      fc.property(anyFleet, anyTypes, (a, instanceTypes) => {
        try {
          readSettings({ ...MODELS, ...named, instanceTypes, fleets: { a } }, 'file');
        } catch (thrown) {
          expect(thrown).toBeInstanceOf(SettingsError);
          expect((thrown as Error).message).toMatch(/^file: (fleets|instanceTypes)[^:]*: ./);
        }
      }),
      { numRuns: 500, seed: 7 },
    );
  });
});

const odd = fc.oneof(fc.anything(), fc.constantFrom(undefined, null, -1, 0, 1e99, Number.NaN, '', '__proto__', [], {}));
/** Mostly a value that may be, at times anything. */
const mostly = <T>(...values: readonly T[]) =>
  fc.oneof({ weight: 8, arbitrary: fc.constantFrom(...values) }, { weight: 1, arbitrary: odd });
const NAMES = ['g6e.12xlarge', 'g6e.24xlarge', 'g6.xlarge', 'p5.48xlarge', 'constructor.x', 'g9.large'];
const anyOption = fc.record(
  {
    types: fc.oneof(fc.array(mostly(...NAMES), { maxLength: 3 }), odd),
    market: mostly('on-demand', 'spot', 'reservation', 'capacity-block'),
    zones: fc.oneof(fc.array(mostly(...ZONES), { maxLength: 3 }), odd),
    reservationId: mostly('cr-0123456789abcdef0'),
    max: mostly(1, 4, 500),
    warmPool: mostly({}, { min: 2 }, { min: 9, state: 'Running' }),
    endsAt: mostly('2027-01-31T11:30:00Z'),
  },
  { requiredKeys: ['types', 'max'] },
);
const anyFleet = fc.oneof(
  odd,
  fc.record(
    {
      kind: mostly('ec2', 'mock'),
      model: mostly('m'),
      pool: mostly('agg', 'decode', 'prefill'),
      engine: mostly<object>({ image: IMAGE }, { image: IMAGE, gpusPerReplica: 3 }, { image: 'a/b:c', kind: 'sglang' }),
      weights: mostly({ uri: 's3://bucket/a/', bytes: 1 }, { uri: 's3://bucket/a/', bytes: 1e12, mode: 'disk' }),
      options: fc.oneof(fc.array(anyOption, { maxLength: 3 }), odd),
      replicas: mostly<object>({ max: 4 }, { min: 9, max: 3 }, {}),
      startSecs: mostly(30, 7200),
      efa: mostly(true, false),
      environment: mostly<object>({}, { DYN_LOG: 'debug' }, { QQQ: 1 }),
      arguments: mostly<readonly string[]>([], ['--speedup-ratio=4'], ['--', 'a']),
    },
    { requiredKeys: ['kind', 'model', 'engine', 'options', 'replicas'] },
  ),
);
const anyTypes = fc.oneof(
  fc.constant({}),
  fc.dictionary(mostly(...NAMES).map(String), mostly<object>({}, { gpus: 1 })),
);
