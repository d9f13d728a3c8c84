import { describe, expect, it } from 'vitest';
import config from '../../infra/examples/eks.config.ts';
import { readSettings, SettingsError } from '../../infra/settings/index.ts';
import { CLUSTER, YOURS } from './eks-deployments.ts';

const MODELS = { models: { m: {} } };
const IMAGE = `registry.example/worker@sha256:${'0'.repeat(64)}`;
const ADMINS = { eks: { admins: ['arn:aws:iam::123456789012:role/Operators'] } };
const ZONED = { network: { availabilityZones: ['eu-west-1a', 'eu-west-1b', 'eu-west-1c'] } };

/** A fleet of one option, with what differs. */
const fleet = (option: object = {}, more: object = {}) => ({
  kind: 'eks',
  model: 'm',
  engine: { image: IMAGE },
  options: [{ types: ['g6e.12xlarge'], max: 4, ...option }],
  replicas: { max: 4 },
  ...more,
});
const reading = (a: object, more: object = {}) =>
  readSettings({ ...MODELS, ...ADMINS, ...more, fleets: { a } }, 'file');
const engine = (more: object) => fleet({}, { engine: { image: IMAGE, ...more } });

describe('the settings of a fleet on EKS', () => {
  it('have a default for each', () => {
    const { fleets, eks } = reading(fleet());
    expect(fleets.a).toMatchObject({
      pool: 'agg',
      engine: { kind: 'vllm', gpusPerReplica: 1, args: [] },
      options: [{ market: 'on-demand' }],
      replicas: { min: 0, max: 4 },
      startSecs: 600,
      drainSecs: 300,
    });
    expect(eks).toMatchObject({ namespace: 'stator', diskGib: 300, publicCidrs: [], apply: false });
  });

  it('take what the example has, in a cluster of the deployment and in one of yours', () => {
    for (const each of [config, YOURS])
      expect(Object.keys(readSettings(each, 'file').fleets)).toEqual(['chat', 'large']);
    expect(() => reading(fleet(), { eks: { apply: true } })).not.toThrow(); // no person needs to enter the cluster
  });

  it.each<[object, string]>([
    [
      fleet({ types: ['g6e.12xlarg'] }),
      'options.0.types.0: g6e.12xlarg: no known type with GPUs; did you mean g6e.12xlarge?',
    ],
    [
      fleet({ types: ['g6e.12xlarge', 'g6e.48xlarge'] }),
      'options.0.types.1: g6e.48xlarge: has 8 GPUs of 45776 MiB, and g6e.12xlarge has 4 GPUs of 45776 MiB: allowed are types alike in both',
    ],
    [
      engine({ gpusPerReplica: 3 }),
      'options.0.types.0: g6e.12xlarge: has 4 GPUs, and engine.gpusPerReplica is 3: one must be a multiple of the other',
    ],
    [
      engine({ args: ['--nnodes', '2'] }),
      'engine.args.0: --nnodes: is not allowed: it follows from engine.gpusPerReplica and the types',
    ],
    [
      fleet({ market: 'reservation' }),
      'options.0.reservationId: is missing: market reservation needs the id of the reservation',
    ],
    [
      fleet({ reservationId: 'cr-0123456789abcdef0' }),
      'options.0.reservationId: cr-0123456789abcdef0: is for market reservation or capacity-block, and market is on-demand',
    ],
    [
      fleet({ types: ['p5.48xlarge'], market: 'capacity-block', reservationId: 'cr-0123456789abcdef0' }),
      'options.0.endsAt: is missing: a capacity block ends, and its machines must be replaced before',
    ],
    [
      fleet({ zones: ['eu-west-1a', 'eu-west-1b'] }, { efa: true, engine: { image: IMAGE, gpusPerReplica: 4 } }),
      'options.0.zones: has 2 entries: efa: true needs one zone',
    ],
    [
      fleet({ zones: ['eu-west-1a'] }, { efa: true }),
      'options.0.types.0: g6e.12xlarge: has 1 EFA interfaces for the 4 replicas of a node: efa: true needs one for each',
    ],
    [
      fleet({ types: ['g6e.4xlarge'], zones: ['eu-west-1a'] }, { efa: true }),
      'options.0.types.0: g6e.4xlarge: has 0 EFA interfaces: efa: true needs types with one or more, alike in all',
    ],
    [engine({ gpusPerReplica: 8 }), 'options.0.zones: is missing: a replica of several nodes needs one zone'],
    [fleet({ zones: ['eu-west-1d'] }), 'options.0.zones.0: eu-west-1d: no zone of the network'],
    [fleet({}, { replicas: { min: 5, max: 4 } }), 'replicas.min: 5: must be at most replicas.max (4)'],
    [
      fleet({}, { replicas: { max: 5 } }),
      'replicas.max: 5: the max of all options have room for 4: allowed are 1 to 4',
    ],
    [
      fleet({}, { engine: { image: IMAGE, kind: 'sglang' }, weights: { uri: 's3://my-models/a/' } }),
      'weights.mode: "stream": engine.kind sglang allows "disk" only',
    ],
    [
      fleet({}, { weights: { uri: 's3://my-models/a/', mode: 'disk' } }),
      'weights.bytes: is missing: mode: "disk" needs the size of the weights',
    ],
    [
      fleet({}, { weights: { uri: 's3://my-models/a/', mode: 'disk', bytes: 66e9 } }),
      'weights.bytes: 66000000000: are 62 GiB, and a pod of g6e.12xlarge has 47: raise eks.diskGib to 368',
    ],
    [
      fleet({}, { environment: { DYN_RUNTIME_GRACEFUL_SHUTDOWN_TIMEOUT_SECS: 5 } }),
      'environment.DYN_RUNTIME_GRACEFUL_SHUTDOWN_TIMEOUT_SECS: is not allowed: it is drainSecs of the fleet',
    ],
    [fleet({}, { warmPool: {} }), 'warmPool: unknown key; known are kind, model, pool'],
  ])('are refused with the field, the value and what is allowed: %#', (given, message) => {
    expect(() => reading(given, ZONED)).toThrow(SettingsError);
    expect(() => reading(given, ZONED)).toThrow(`file: fleets.a.${message}`);
  });

  it('need no zone for a replica of several nodes in a reservation, which has one', () => {
    const reserved = { market: 'reservation', reservationId: 'cr-0123456789abcdef0' };
    const given = fleet(reserved, { engine: { image: IMAGE, gpusPerReplica: 8 } });
    expect(() => reading(given, ZONED)).not.toThrow();
  });

  it('need a name that objects of Kubernetes can have', () => {
    const named = (name: string) => () => readSettings({ ...MODELS, ...ADMINS, fleets: { [name]: fleet() } }, 'file');
    expect(named('Chat')).toThrow('file: fleets.Chat: names objects of Kubernetes: must be lower-case letters');
    expect(named('a'.repeat(40))).toThrow(
      /a workload would be a+-0-on-demand, which has 52 characters: allowed are 46/,
    );
    const fleets = { chat: fleet() };
    expect(() => readSettings({ ...MODELS, ...ADMINS, name: 'D'.repeat(47), fleets }, 'file')).toThrow(
      /a node pool would be d+-chat-0-on-demand, which has 64 characters: allowed are 63/,
    );
  });
});

describe('the settings of a cluster', () => {
  const yours = (more: object = {}) => ({ ...YOURS, eks: { cluster: { ...CLUSTER, ...more } } });
  const withEks = (eks: object) => ({ ...config, eks });

  it.each<[object, string]>([
    [withEks({}), 'eks.admins: is empty: without apply, someone must be let into the cluster to apply the manifests'],
    [withEks({ admins: ['Operators'] }), 'eks.admins.0: must be an ARN'],
    [
      withEks({ ...ADMINS.eks, publicCidrs: ['all'] }),
      'eks.publicCidrs.0: must be a range of addresses, as 203.0.113.0/24',
    ],
    [withEks({ ...ADMINS.eks, namespace: 'a/b' }), 'eks.namespace: must be the name of a namespace; it is "a/b"'],
    [withEks({ ...ADMINS.eks, version: 'v1' }), 'eks.version: must be a version of Kubernetes, as 1.36; it is "v1"'],
    [withEks({ cluster: CLUSTER }), 'eks.cluster: needs network.vpc, the VPC of the cluster'],
    [yours({ securityGroupId: 'a' }), 'eks.cluster.securityGroupId: must be the id of a security group'],
    [
      yours({ nodes: 'karpenter', nodeRole: 'Nodes', tagsNodes: true }),
      'eks.cluster.tagsNodes: is for nodes: auto-mode: Karpenter sets the tag by itself',
    ],
    [yours({ nodes: 'karpenter' }), 'eks.cluster.nodeRole: is missing: nodes: karpenter needs the name of the role'],
    [{ ...YOURS, eks: { cluster: CLUSTER, ...ADMINS.eks } }, 'eks.admins: is for a cluster that the deployment makes'],
    [{ ...YOURS, eks: { cluster: CLUSTER, version: '1.36' } }, 'eks.version: is for a cluster that the deployment'],
    [{ eks: { apply: true } }, 'eks: is for fleets of kind: eks, and there is none'],
  ])('are refused with what to do: %#', (given, message) => {
    expect(() => readSettings(given, 'file')).toThrow(`file: ${message}`);
  });

  it('refuse claims of GPUs if Auto Mode has no driver for them', () => {
    const claiming = fleet({}, { gpuClaims: true });
    const versioned = (version: string) => () => reading(claiming, { eks: { ...ADMINS.eks, version } });
    expect(versioned('1.35')).toThrow(
      'file: fleets.a.gpuClaims: true: needs Kubernetes 1.36 with Auto Mode, and eks.version is 1.35',
    );
    expect(versioned('1.36')).not.toThrow();
  });

  it('are refused beside fleets on EC2, which another planner scales', () => {
    const machines = { ...fleet(), kind: 'ec2', model: 'other' };
    const both = { models: { m: {}, other: {} }, ...ADMINS, fleets: { a: fleet(), b: machines } };
    expect(() => readSettings(both, 'file')).toThrow(
      'file: fleets: has kinds ec2 and eks: one planner scales one of them',
    );
  });
});
