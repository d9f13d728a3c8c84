import { describe, expect, it } from 'vitest';
import { type Environment, resolveConfig, type Settings } from '../../../shared/config/index.ts';
import type { InstanceIdentity } from '../../../shared/host/instance-facts.ts';
import {
  readServed,
  replicaCount,
  replicaSpec,
  requireModel,
  workerArguments,
} from '../../../shared/host/worker-command.ts';

const IDENTITY: InstanceIdentity = {
  instanceId: 'i-0123456789abcdef0',
  instanceType: 'p5.48xlarge',
  zone: 'us-east-1b',
  market: 'spot',
};

function settingsOf(...argv: readonly string[]): Settings<'host'> {
  return resolveConfig('host', argv, {}).settings;
}

function specOf(index: number, argv: readonly string[], env: Environment = {}) {
  const places = { weights: '/w', compileCache: '/c' };
  return replicaSpec(settingsOf(...argv), index, { identity: IDENTITY, places, env });
}

describe('the workers of a machine', () => {
  it.each([
    [8, 2, 4],
    [8, 3, 2],
    [1, 1, 1],
    [0, 1, 1],
  ])('of %i GPUs with %i each are %i', (gpus, each, count) => {
    expect(replicaCount(settingsOf(`--host-gpus=${gpus}`, `--host-gpus-per-replica=${each}`))).toBe(count);
  });

  it('have GPUs and ports of their own', () => {
    const argv = ['--host-gpus=8', '--host-gpus-per-replica=2'];
    const specs = [0, 1, 2, 3].map((index) => specOf(index, argv));
    expect(specs.map(({ gpus }) => gpus)).toEqual([
      [0, 1],
      [2, 3],
      [4, 5],
      [6, 7],
    ]);
    expect(specs.map(({ env }) => [env.DYN_TCP_RPC_PORT, env.DYN_SYSTEM_PORT])).toEqual([
      ['8800', '9100'],
      ['8801', '9101'],
      ['8802', '9102'],
      ['8803', '9103'],
    ]);
  });

  it('must name their model if the machine reports to a planner', async () => {
    const plannerQueueUrl = 'https://sqs.us-east-1.amazonaws.com/1/q.fifo';
    const reporting = { ...settingsOf(), plannerQueueUrl };
    const served = await readServed(settingsOf(), ['--engine=vllm', '--engine-url=http://127.0.0.1:8000'], {});
    expect(() => requireModel(settingsOf(), served)).not.toThrow();
    expect(() => requireModel(reporting, { ...served, model: 'm' })).not.toThrow();
    expect(() => requireModel(reporting, served)).toThrow(
      /--host-worker-arguments names no model.*STATOR_PLANNER_QUEUE_URL.*--served-model-name NAME/,
    );
  });

  it('register the facts of their machine', () => {
    const { env } = specOf(0, ['--host-gpus=1', '--host-group=chat-1-spot', '--host-generation=a1']);
    expect(JSON.parse(env.STATOR_HOST_FACTS ?? '')).toEqual({
      instance_id: 'i-0123456789abcdef0',
      instance_type: 'p5.48xlarge',
      zone: 'us-east-1b',
      market: 'spot',
      group: 'chat-1-spot',
      generation: 'a1',
    });
    expect(JSON.parse(specOf(0, []).env.STATOR_HOST_FACTS ?? '')).not.toHaveProperty('group');
  });

  it('get the environment of the agent, but nothing of its machine, and keep what the operator has set', () => {
    const given = {
      STATOR_DISCOVERY_TABLE: 't',
      VLLM_CACHE_ROOT: '/mine',
      DYN_GRACEFUL_SHUTDOWN_GRACE_PERIOD_SECS: '7',
      STATOR_HOST_GROUP: 'g',
      STATOR_IMDS_URL: 'http://127.0.0.1',
      INVOCATION_ID: 'x',
      PATH: '/bin',
    };
    const { env } = specOf(0, ['--host-worker-image=i', '--host-drain-secs=120'], given);
    expect(env).toMatchObject({
      STATOR_DISCOVERY_TABLE: 't',
      VLLM_CACHE_ROOT: '/mine',
      TRITON_CACHE_DIR: '/c/triton',
      DYN_GRACEFUL_SHUTDOWN_GRACE_PERIOD_SECS: '7',
      DYN_RUNTIME_GRACEFUL_SHUTDOWN_TIMEOUT_SECS: '120',
    });
    for (const name of ['STATOR_HOST_GROUP', 'STATOR_IMDS_URL', 'INVOCATION_ID', 'PATH']) {
      expect(env).not.toHaveProperty(name);
    }
    expect(specOf(0, [], given).env.PATH).toBe('/bin'); // a process needs the programs of this machine
  });

  it('have the arguments of the operator, with the place of the weights where they ask for it', () => {
    const args = ['--engine=vllm', '--model={weights}', '--load-format=runai_streamer'];
    const settings = settingsOf(`--host-worker-arguments=${JSON.stringify(args)}`, '--host-weights-uri=s3://b/m/1/');
    expect(workerArguments(settings, { weights: 's3://b/m/1/' })).toEqual([
      '--engine=vllm',
      '--model=s3://b/m/1/',
      '--load-format=runai_streamer',
    ]);
  });

  it('are checked before anything starts', async () => {
    const read = (...args: readonly string[]) => readServed(settingsOf(), args, {});
    await expect(read('--engine=vlm')).rejects.toThrow('--host-worker-arguments: --engine "vlm"');
    await expect(read('--engine=mocker', '--endpoint=chat')).rejects.toThrow(
      '--host-worker-arguments: --endpoint "chat": expected dyn://namespace.component.endpoint',
    );
    expect(await read('--engine=mocker', '--model-name=m', '--disaggregation-mode=prefill')).toMatchObject({
      namespace: 'dynamo',
      model: 'm',
      pool: 'prefill',
      healthHost: '127.0.0.1',
      healthPath: '/health',
    });
  });
});

describe('settings of a host', () => {
  it.each([
    [['--host-runner=docker'], '--host-worker-image is needed by --host-runner docker'],
    [['--host-launch-hook=l'], '--host-launch-hook needs --host-group'],
    [['--host-weights-uri=/disk'], '--host-weights-uri must be s3://bucket/prefix/'],
    [['--host-weights-mode=disk'], '--host-weights-mode disk needs --host-weights-uri'],
    [['--host-worker-arguments=["{weights}"]'], '{weights} needs --host-weights-uri'],
    [['--host-ends-at=soon'], '--host-ends-at must be a time as 2026-12-01T11:30:00Z'],
    [['--host-gpus=1', '--host-gpus-per-replica=2'], '--host-gpus-per-replica is more than --host-gpus'],
    [['--host-drain-secs=0'], '--host-drain-secs "0": '],
  ])('%j are refused', (argv, message) => {
    expect(() => settingsOf(...argv)).toThrow(message);
  });
});
