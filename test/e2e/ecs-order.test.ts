import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { EcsCluster, type Machine, type Templates, withContainer, withRelease } from '../support/aws/ecs/index.ts';
import type { Resource } from '../support/aws/localize.ts';
import { waitUntil } from '../support/index.ts';

/** Templates of services whose containers are shells; the checks of a deployment are asked every 10 s, and here every 0.1 s. */
const TIME_SCALE = 0.01;
const folder = mkdtempSync(join(tmpdir(), 'stator-ecs-order-'));
const machine: Machine = {
  folder,
  secretOf: (from) => from,
  imageOf: () => ({
    entryPoint: ['/bin/sh', '-c'],
    command: [],
    folders: {},
    environment: { PATH: process.env.PATH ?? '' },
  }),
};
const RUNS = 'touch up; exec sleep 1000';

interface Given {
  readonly command?: string;
  readonly check?: string;
  readonly startSecs?: number;
  readonly timeoutSecs?: number;
  readonly count?: number;
  readonly healthyPercent?: readonly [min: number, max: number];
  readonly zones?: readonly string[];
  readonly dependsOn?: readonly string[];
  /** Of the container: what must be true of others. */
  readonly beside?: readonly object[];
}

/** Resources of one service. */
function service(id: string, given: Given = {}): Record<string, Resource> {
  const { command = RUNS, check = 'test -e up', startSecs = 100, timeoutSecs = 5, count = 1 } = given;
  const { zones = ['a', 'b'], beside = [] } = given;
  const [MinimumHealthyPercent, MaximumPercent] = given.healthyPercent ?? [100, 200];
  const main = {
    Name: id,
    Image: 'shell',
    Command: [command],
    HealthCheck: { Command: ['CMD-SHELL', check], Interval: 10, Timeout: timeoutSecs, StartPeriod: startSecs },
    ...(beside.length > 0 ? { DependsOn: beside.map((each) => ({ ContainerName: `${id}-beside`, ...each })) } : {}),
  };
  const other = { ...main, Name: `${id}-beside`, Essential: false, DependsOn: [] };
  return {
    [`${id}Task`]: {
      Type: 'AWS::ECS::TaskDefinition',
      Properties: { ContainerDefinitions: beside.length > 0 ? [main, other] : [main] },
    },
    [id]: {
      Type: 'AWS::ECS::Service',
      DependsOn: given.dependsOn ?? [],
      Properties: {
        DesiredCount: count,
        DeploymentConfiguration: { MinimumHealthyPercent, MaximumPercent, DeploymentCircuitBreaker: { Enable: true } },
        NetworkConfiguration: { AwsvpcConfiguration: { Subnets: zones.map((zone) => ({ Ref: `Subnet${zone}` })) } },
        TaskDefinition: { Ref: `${id}Task` },
      },
    },
  };
}

function stack(...services: readonly Record<string, Resource>[]): Templates {
  const subnets = ['a', 'b'].map((zone): [string, Resource] => [
    `Subnet${zone}`,
    { Type: 'AWS::EC2::Subnet', Properties: { AvailabilityZone: zone } },
  ]);
  return { Stack: { Resources: Object.assign(Object.fromEntries(subnets), ...services) as Record<string, Resource> } };
}

describe('services, played from their templates', () => {
  let cluster: EcsCluster;
  beforeEach(() => {
    cluster = new EcsCluster({ machine, timeScale: TIME_SCALE, patienceScale: TIME_SCALE });
  });
  afterEach(() => cluster.close());
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  /** How many tasks were healthy, and how many there were, at the worst moment of `work`. */
  async function watch(id: string, work: Promise<void>): Promise<{ healthyMin: number; tasksMax: number }> {
    const seen = { healthyMin: Number.POSITIVE_INFINITY, tasksMax: 0 };
    let isOver = false;
    const over = work.finally(() => {
      isOver = true;
    });
    while (!isOver) {
      const { healthyTasks, tasks } = cluster.service(id);
      seen.healthyMin = Math.min(seen.healthyMin, healthyTasks.length);
      seen.tasksMax = Math.max(seen.tasksMax, tasks.length);
      await turn();
    }
    await over;
    return seen;
  }

  it('are made when those are healthy that they depend on, however far the way there', async () => {
    const between: Record<string, Resource> = {
      Rule: { Type: 'AWS::EC2::SecurityGroupIngress', Properties: { Note: { 'Fn::GetAtt': ['First', 'Name'] } } },
    };
    await cluster.deploy(
      stack(service('Last', { dependsOn: ['Rule'] }), service('First', { check: 'test -e up' }), between),
    );
    expect(cluster.events.filter((event) => / is (made|steady)$/.test(event))).toEqual([
      'Stack/First is made',
      'Stack/First is steady',
      'Stack/Last is made',
      'Stack/Last is steady',
    ]);
  });

  it('are refused when they wait for each other', async () => {
    const round = stack(service('One', { dependsOn: ['Two'] }), service('Two', { dependsOn: ['One'] }));
    await expect(cluster.deploy(round)).rejects.toThrow('One waits for itself');
  });

  it.each([
    ['end', { command: 'echo no luck; exit 3' }, /container Only ended \(3\)[\s\S]*no luck/],
    ['never become healthy', { check: 'exit 1', startSecs: 10 }, /its check failed 3 times in a row/],
    [
      'have a check that never answers',
      { check: 'exec sleep 100', startSecs: 0, timeoutSecs: 0.1 },
      /its check failed 3 times in a row/,
    ],
  ] as const)('are given up when their tasks %s, and nothing of them is left', async (_what, given, message) => {
    await expect(cluster.deploy(stack(service('Only', given)))).rejects.toThrow(message);
    expect(cluster.events.filter((event) => event.includes('starts a task'))).toHaveLength(3);
    expect(cluster.services).toEqual([]);
  });

  it('are believed when a check succeeds after failures of the start period', async () => {
    const slow = service('Only', { command: `sleep 0.5; ${RUNS}` });
    await cluster.deploy(stack(slow));
    expect(cluster.serviceOf('Only').started).toBe(1);
  });

  it('start a container when another one of the task is healthy', async () => {
    const command = 'test -e up || exit 1; exec sleep 1000';
    const given = service('Only', { beside: [{ Condition: 'HEALTHY' }] });
    await cluster.deploy(withContainer(stack(given), 'Only', (each) => ({ ...each, Command: [command] })));
    expect(cluster.serviceOf('Only').started).toBe(1);
  });

  it.each([
    [2, [100, 200], { healthyMin: 2, tasksMax: 4 }],
    [2, [50, 100], { healthyMin: 1, tasksMax: 2 }],
    [1, [0, 100], { healthyMin: 0, tasksMax: 1 }],
    [3, [100, 134], { healthyMin: 3, tasksMax: 4 }],
  ] as const)(
    'of %i tasks keep to the least and the most of %j percent through a release',
    async (count, percent, worst) => {
      const first = stack(service('Only', { count, healthyPercent: percent }));
      await cluster.deploy(first);
      expect(await watch('Stack/Only', cluster.deploy(withRelease(first, 'Only', 'next')))).toEqual(worst);
      expect(cluster.serviceOf('Only').started).toBe(2 * count);
    },
  );

  it('that leave no room for a release cannot have one', async () => {
    const first = stack(service('Only', { healthyPercent: [100, 100] }));
    await cluster.deploy(first);
    const next = cluster.deploy(withRelease(first, 'Only', 'next'));
    await expect(next).rejects.toThrow('no task can be replaced: 1 must be healthy and there may be 1');
    expect(cluster.serviceOf('Only').isSteady).toBe(true);
  });

  it('go back to what they were when a release fails, and serve meanwhile', async () => {
    const first = stack(service('Good'), service('Only', { count: 2 }));
    await cluster.deploy(first);
    const bad = withContainer(withRelease(first, 'Good', 'next'), 'Only', (each) => ({ ...each, Command: ['exit 1'] }));
    const seen = await watch('Stack/Only', expect(cluster.deploy(bad)).rejects.toThrow(/Stack.Only: \d tasks failed/));
    expect(seen.healthyMin).toBe(2);
    const environments = cluster.serviceOf('Good').healthyTasks.map(({ plan }) => plan.containers[0]?.environment);
    expect(environments).toEqual([{}]);
  });

  it('replace a task that dies, and one whose check fails later', async () => {
    await cluster.deploy(stack(service('Only', { count: 2 })));
    const only = cluster.serviceOf('Only');
    await only.tasks[0]?.kill();
    await waitUntil(() => only.started === 3 && only.isSteady);
    expect(cluster.events.at(-2)).toContain('container Only ended (killed)');
    rmSync(join(only.tasks[0]?.folder ?? '', 'up'));
    await waitUntil(() => only.started === 4 && only.isSteady);
    expect(cluster.events.at(-2)).toContain('its check failed 3 times in a row');
  });

  it('keep a task whose check fails often, but not for as long as checks on Fargate take to', async () => {
    await cluster.close();
    cluster = new EcsCluster({ machine, timeScale: TIME_SCALE });
    await cluster.deploy(stack(service('Only', { check: 'test -e up && touch good || { echo >> failed; exit 1; }' })));
    const only = cluster.serviceOf('Only');
    const fileOf = (name: string): string => join(only.tasks[0]?.folder ?? '', name);
    const isThere = (name: string): boolean => existsSync(fileOf(name));
    for (const name of ['up', 'failed']) rmSync(fileOf(name), { force: true });
    await waitUntil(() => isThere('failed') && readFileSync(fileOf('failed')).length > 4);
    rmSync(fileOf('good'));
    writeFileSync(fileOf('up'), '');
    await waitUntil(() => isThere('good'));
    expect([only.started, only.isSteady]).toEqual([1, true]);
  });

  it('spread over zones, move out of one that is lost where they may, and wait for it where not', async () => {
    await cluster.deploy(stack(service('Spread', { count: 2 }), service('Bound', { zones: ['a'] })));
    const [spread, bound] = [cluster.serviceOf('Spread'), cluster.serviceOf('Bound')];
    const zones = () => spread.healthyTasks.map(({ place }) => place.zone).sort();
    expect(zones()).toEqual(['a', 'b']);
    cluster.loseZone('a');
    await cluster.giveUpZone('a');
    await waitUntil(() => spread.isSteady);
    expect(zones()).toEqual(['b', 'b']);
    expect(bound.tasks).toEqual([]);
    cluster.returnZone('a');
    await cluster.untilSteady();
    expect(bound.healthyTasks).toHaveLength(1);
  });

  it('end in their order and leave no disk', async () => {
    await cluster.deploy(stack(service('Last', { dependsOn: ['First'] }), service('First')));
    await cluster.destroy();
    expect(cluster.events.slice(-2)).toEqual(['Stack/Last is removed', 'Stack/First is removed']);
    expect(cluster.services).toEqual([]);
  });
});
