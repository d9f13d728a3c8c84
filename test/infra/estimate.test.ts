import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import example from '../../infra/examples/ec2.config.ts';
import type { StatorConfig } from '../../infra/settings/index.ts';
import { quotasNeeded } from '../../shared/commands/deploy-needs.ts';
import { type Estimate, estimateDeployment } from '../../shared/commands/estimate/estimate.ts';
import { renderEstimate } from '../../shared/commands/estimate/text.ts';
import { EVERYTHING, GPUS, MODELS } from './deployments.ts';
import { CLUSTER, EKS_MODELS, type EksFleetConfig, OURS, YOURS } from './eks-deployments.ts';
import { deployedTemplates, devTemplate } from './templates.ts';

const IDLE = { requestsPerDay: 0, secondsPerRequest: 10 };
/** A million requests in a month. */
const MILLION = { requestsPerDay: 1e6 / (730 / 24), secondsPerRequest: 2 };
const sum = (parts: readonly { readonly dollars: number }[]) =>
  parts.reduce((total, { dollars }) => total + dollars, 0);

type Stack = Parameters<typeof estimateDeployment>[0][number];
const DEV: readonly Stack[] = [{ name: 'Stator', template: devTemplate().toJSON() }];
const production = (config: StatorConfig = {}): readonly Stack[] =>
  Object.entries(deployedTemplates(config)).map(([name, template]) => ({ name, template }));
const everything = () =>
  production({
    ...EVERYTHING,
    alarms: { topicArn: 'arn:aws:sns:eu-west-1:123456789012:oncall', budgetUsd: 500 },
    encryption: { keyArn: 'arn:aws:kms:eu-west-1:123456789012:key/0a' },
  });
const dollarsOf = (parts: Estimate['idle']) => Object.fromEntries(parts.map(({ name, dollars }) => [name, dollars]));
const countsOf = (parts: Estimate['idle']) => Object.fromEntries(parts.map(({ name, count }) => [name, count]));

describe('the price of an idle deployment', () => {
  it('is at most 40 dollars a month for dev', () => {
    const { idle, load } = estimateDeployment(DEV, IDLE);
    expect(sum(load)).toBe(0);
    expect(sum(idle)).toBeLessThanOrEqual(40);
    expect(dollarsOf(idle)['tasks of Stator/Task']).toBeCloseTo(14.42, 1);
  });

  it('counts every part of production that is paid for', () => {
    expect(countsOf(estimateDeployment(everything(), IDLE).idle)).toEqual({
      'tasks of Stator-Edge/Natsnats0': 1,
      'tasks of Stator-Edge/Natsnats1': 1,
      'tasks of Stator-Edge/Natsnats2': 1,
      'tasks of Stator-Edge/Edge': 2,
      'tasks of Stator-Fleet-mock/Workers': 2,
      'NAT gateways with their addresses': 3,
      'load balancers': 1,
      'public addresses of load balancers': 3,
      secrets: 5,
      'keys of KMS': 1,
      'metrics of container insights': 7 + 5 * 8 + 5 * 11,
      'custom metrics of containers': 4,
      'metrics that alarms watch': expect.any(Number),
      'composite alarms': 1,
      dashboards: 1,
      'private zones': 1,
      firewalls: 2,
      'rules of firewalls': 3,
      budgets: 1,
    });
  });

  it('has each number from the templates: all of them twice are twice as many', () => {
    const once = everything();
    const again = once.map(({ name, template }) => ({ name: `B-${name}`, template }));
    const { idle } = estimateDeployment(once, IDLE);
    const twice = countsOf(estimateDeployment([...once, ...again], IDLE).idle);
    for (const { name, count } of idle) {
      if (name === 'keys of KMS') expect(twice[name]).toBe(1);
      else if (name.startsWith('tasks of ')) expect(twice[name.replace(' of ', ' of B-')]).toBe(count);
      else expect([name, twice[name]]).toEqual([name, 2 * count]);
    }
  });

  it('prices each fleet by its own size, though their services have one id', () => {
    const fleet = { kind: 'mock', model: 'stator-mini' } as const;
    const stacks = production({
      fleets: {
        small: { ...fleet, workers: 1, size: { cpu: 256, memoryMiB: 512 } },
        large: { ...fleet, workers: 3, size: { cpu: 2048, memoryMiB: 4096 } },
      },
    });
    const dollars = dollarsOf(estimateDeployment(stacks, IDLE).idle);
    const hour = 0.03238 + 2 * 0.00356;
    expect(dollars['tasks of Stator-Fleet-small/Workers']).toBeCloseTo((hour / 4) * 730);
    expect(dollars['tasks of Stator-Fleet-large/Workers']).toBeCloseTo(3 * 2 * hour * 730);
    const cores = quotasNeeded(stacks.map(({ template }) => template)).find(({ service }) => service === 'fargate');
    expect(cores?.needed).toBe(2 * 2 + 3 * 0.5 + 2 * (0.25 + 3 * 2));
  });

  it('counts the metrics of models on machines, too', () => {
    const { idle } = estimateDeployment(production(GPUS), IDLE);
    expect(countsOf(idle)['custom metrics of containers']).toBe(3 + 3);
  });

  it('has at most five dollars a month for the control of a planned model at rest, alarms included', () => {
    const stacks = production(GPUS);
    const { idle } = estimateDeployment(stacks, IDLE);
    expect(countsOf(idle)).toMatchObject({
      'models that the planner looks at each minute': 2,
      'queues that a function polls': 1,
      'custom metrics of the planner': 2 + 1 + 2, // for all, for unknown events, for each model
    });
    const ofPlanner = idle.filter(({ name }) => /planner|polls/.test(name));
    const planner = stacks.filter(({ name }) => name === 'Stator-Planner');
    const { 'metrics that alarms watch': alarms } = dollarsOf(estimateDeployment(planner, IDLE).idle);
    expect(alarms).toBeGreaterThan(1);
    const dollars = sum(ofPlanner) + (alarms ?? 0);
    expect(dollars / 2).toBeLessThanOrEqual(5);
    expect(dollars).toBeCloseTo(3.8, 0);
    expect(countsOf(estimateDeployment(production(), IDLE).idle)).not.toHaveProperty(['queues that a function polls']);
  });

  it("has the memory of the planner's function from its template", () => {
    const stacks = production(GPUS);
    const larger = JSON.parse(JSON.stringify(stacks).replaceAll('"MemorySize":512', '"MemorySize":2048')) as Stack[];
    const restOf = (each: readonly Stack[]) =>
      dollarsOf(estimateDeployment(each, IDLE).idle)['models that the planner looks at each minute']!;
    const gbSeconds = (2 * 60 * 730 * 0.3 * (2048 - 512)) / 1024;
    expect(restOf(larger) - restOf(stacks)).toBeCloseTo(gbSeconds * 0.0000133334, 4);
  });

  it('counts the metrics of each model', () => {
    const models = { a: {}, b: {}, c: {} };
    const fleets = Object.fromEntries(Object.keys(models).map((model) => [model, { kind: 'mock' as const, model }]));
    const { idle, load } = estimateDeployment(production({ models, fleets }), MILLION);
    expect(countsOf(idle)['custom metrics of containers']).toBe(3 + 3);
    expect(countsOf(load)['metrics told by the function']).toBe(3 * (1 + 3) + 2 + 1);
  });
});

describe('the price of machines with GPUs', () => {
  const chat = example.fleets!.chat as Extract<NonNullable<StatorConfig['fleets']>[string], { kind: 'ec2' }>;
  const priced = (more: Partial<typeof chat>, beside: StatorConfig = {}) =>
    estimateDeployment(
      production({ ...GPUS, models: MODELS, ...beside, fleets: { chat: { ...chat, ...more } } }),
      IDLE,
    );
  const disk = 150 * 0.08 + 875 * 0.04 + 1000 * 0.005;
  const month = 10.49264 * 730 + disk;

  it('has only the disks of machines that wait while no machine runs', () => {
    const { idle, unpriced } = priced({});
    const ofMachines = idle.filter(({ name }) => name.includes('machines'));
    expect(dollarsOf(ofMachines)).toEqual({ 'disks of machines that wait, of chat 0-on-demand': expect.closeTo(disk) });
    expect(unpriced).toEqual([]);
  });

  it('is that of the machines which the fewest replicas need, on the first option, and of running ones that wait', () => {
    const options: typeof chat.options = [{ ...chat.options[0]!, warmPool: { state: 'Running' } }, chat.options[1]!];
    const { idle } = priced({ replicas: { min: 3, max: 24 }, options });
    expect(dollarsOf(idle)).toMatchObject({
      'machines of chat 0-on-demand': expect.closeTo(2 * month), // two replicas each
      'machines that wait, of chat 0-on-demand': expect.closeTo(month),
    });
  });

  it('has a machine of each pool that does half of a request, of which a planner never ends the last worker', () => {
    const { idle } = estimateDeployment(production(GPUS), IDLE);
    expect(countsOf(idle)).toMatchObject({
      'machines of code-prefill 0-on-demand': 1,
      'machines of code-decode 0-on-demand': 1,
    });
  });

  it('has machines of later options, if the first ones have too few for the fewest replicas', () => {
    const { idle } = priced({ replicas: { min: 11, max: 24 } });
    expect(countsOf(idle)).toMatchObject({ 'machines of chat 0-on-demand': 4, 'machines of chat 1-spot': 2 });
  });

  it('is at worst that of every option at its most, by the dearest of its types', () => {
    expect(dollarsOf(priced({}).worst.parts)).toMatchObject({
      'more machines of chat 0-on-demand': expect.closeTo(4 * month),
      'more machines of chat 1-spot': expect.closeTo(8 * (15.06559 * 730 + disk)),
    });
  });

  it('has only disks for a capacity block, which is paid for before', () => {
    const block = {
      types: ['p5e.48xlarge'],
      market: 'capacity-block' as const,
      zones: ['eu-west-1a'],
      reservationId: 'cr-0123456789abcdef0',
      endsAt: '2027-01-31T11:30:00Z',
      max: 2,
    };
    const { worst, unpriced } = priced({ options: [block], replicas: { max: 8 } });
    expect(dollarsOf(worst.parts)['more machines of chat 0-capacity-block']).toBeCloseTo(2 * disk);
    expect(unpriced).toEqual([]);
  });

  it('says which machines have no known price, until the settings give one', () => {
    const options = [{ types: ['g7e.48xlarge'], max: 3 }];
    const replicas = { max: 12 };
    const unknown = priced({ options, replicas });
    expect(renderEstimate(unknown)).toContain(
      'Machines of chat 0-on-demand count as nothing: their price is not known.',
    );
    const known = priced({ options, replicas }, { instanceTypes: { 'g7e.48xlarge': { hourUsd: 10 } } });
    expect(known.unpriced).toEqual([]);
    expect(dollarsOf(known.worst.parts)['more machines of chat 0-on-demand']).toBeCloseTo(3 * (7300 + disk));
  });
});

describe('the price of fleets on EKS', () => {
  const month = 10.49264 * 730;
  const disk = 300 * 0.08 + 875 * 0.04 + 1000 * 0.005;

  it('has the cluster that the deployment makes, and no nodes while no pod runs', () => {
    const { idle, unpriced } = estimateDeployment(production(OURS), IDLE);
    expect(dollarsOf(idle)['clusters of EKS']).toBeCloseTo(73);
    expect(idle.filter(({ name }) => name.includes('machines'))).toEqual([]);
    expect(unpriced).toEqual([]);
    expect(dollarsOf(estimateDeployment(production(YOURS), IDLE).idle)).not.toHaveProperty('clusters of EKS');
  });

  it('is at worst that of the nodes of every option at its most, with the fee of Auto Mode', () => {
    const worst = (config: StatorConfig) => dollarsOf(estimateDeployment(production(config), IDLE).worst.parts);
    expect(worst(OURS)).toMatchObject({
      'more machines of chat 0-on-demand': expect.closeTo(4 * (1.12 * month + disk)), // two replicas each
      'more machines of chat 1-spot': expect.closeTo(8 * (1.12 * 15.06559 * 730 + disk)),
      'more machines of large 0-on-demand': expect.closeTo(4 * (1.12 * 55.04 * 730 + disk)), // two of each replica
    });
    const karpenter = { cluster: { ...CLUSTER, nodes: 'karpenter' as const, nodeRole: 'Nodes' } };
    const [plain] = [worst({ ...YOURS, eks: karpenter })];
    expect(plain?.['more machines of chat 0-on-demand']).toBeCloseTo(4 * (month + disk));
  });

  it('is that of the nodes which the fewest replicas need', () => {
    const chat = { ...(OURS.fleets!.chat as EksFleetConfig), replicas: { min: 3, max: 24 } };
    const { idle } = estimateDeployment(production({ ...OURS, models: EKS_MODELS, fleets: { chat } }), IDLE);
    expect(dollarsOf(idle)['machines of chat 0-on-demand']).toBeCloseTo(2 * (1.12 * month + disk));
  });

  it('is, for a capacity block, that of the disks and the fee of Auto Mode: the block is paid for elsewhere', () => {
    const reservation = { reservationId: 'cr-0123456789abcdef0', max: 2 };
    const options = [
      { types: ['g6e.12xlarge'], market: 'reservation' as const, ...reservation },
      { types: ['p5.48xlarge'], market: 'capacity-block' as const, endsAt: '2027-01-31T11:30:00Z', ...reservation },
    ];
    const chat = { ...(OURS.fleets!.chat as EksFleetConfig), options, replicas: { max: 4 } };
    const config = { ...OURS, models: EKS_MODELS, fleets: { chat } };
    const { worst, unpriced } = estimateDeployment(production(config), IDLE);
    expect(dollarsOf(worst.parts)).toMatchObject({
      'more machines of chat 0-on-demand': expect.closeTo(1.12 * month + disk), // reserved: paid for in any case
      'more machines of chat 1-capacity-block': expect.closeTo(0.12 * 55.04 * 730 + disk),
    });
    expect(unpriced).toEqual([]);
    const karpenter = { cluster: { ...CLUSTER, nodes: 'karpenter' as const, nodeRole: 'Nodes' } };
    const plain = estimateDeployment(
      production({ ...YOURS, eks: karpenter, models: EKS_MODELS, fleets: { chat } }),
      IDLE,
    );
    expect(dollarsOf(plain.worst.parts)['more machines of chat 1-capacity-block']).toBeCloseTo(disk);
    const needs = quotasNeeded(production(config).map(({ template }) => template));
    expect(needs.map(({ code }) => code)).not.toContain('L-417A185B'); // a block counts against no quota of cores
  });

  it('comes with quotas for the most nodes', () => {
    const needs = quotasNeeded(production(OURS).map(({ template }) => template));
    const needed = Object.fromEntries(needs.map(({ code, needed: count }) => [code, count]));
    expect(needed).toMatchObject({ 'L-DB2E81BA': 4 * 48, 'L-417A185B': 4 * 192, 'L-3819A6DF': 8 * 96 });
  });
});

describe('the price of images for machines', () => {
  const idleOf = (machineImages: StatorConfig['machineImages']) =>
    dollarsOf(estimateDeployment(production({ ...GPUS, machineImages }), IDLE).idle);
  const snapshots = 'snapshots of machine image gpu, at most';

  it('is that of the snapshots that are kept, and of builds by schedule', () => {
    expect(idleOf({ gpu: { rebuild: 'weekly', instanceType: 'm6i.2xlarge' } })).toMatchObject({
      [snapshots]: expect.closeTo(3 * 105 * 0.05),
      'builds of machine image gpu': expect.closeTo(4.35 * 0.384),
    });
    const plain = idleOf({ gpu: { keep: 1 } });
    expect(plain[snapshots]).toBeCloseTo(105 * 0.05);
    expect(plain).not.toHaveProperty('builds of machine image gpu');
  });
});

describe('the price of alarms', () => {
  const idleOf = (alarms: readonly object[]) => {
    const resources = alarms.map((Properties, at) => [`A${at}`, { Type: 'AWS::CloudWatch::Alarm', Properties }]);
    return estimateDeployment([{ name: 'A', template: { Resources: Object.fromEntries(resources) } }], IDLE).idle;
  };
  const metric = (Id: string) => ({ Id, MetricStat: { Metric: { MetricName: 'Errors' }, Period: 60, Stat: 'Sum' } });

  it.each([
    ['one that watches a metric', [{ MetricName: 'Errors' }], 1],
    ['two', [{ MetricName: 'Errors' }, { Metrics: [metric('m0')] }], 2],
    [
      'one by a formula of three',
      [{ Metrics: [{ Id: 'e', Expression: 'a + b + c' }, metric('a'), metric('b'), metric('c')] }],
      3,
    ],
  ])('is by metrics: %s', (_, alarms, count) => {
    const dollars = expect.closeTo(count * 0.1) as number;
    expect(idleOf(alarms)).toEqual([{ name: 'metrics that alarms watch', count, dollars }]);
  });
});

describe('the price of a load', () => {
  it('counts gateway, function, seconds, log and what the function tells', () => {
    expect(dollarsOf(estimateDeployment(DEV, MILLION).load)).toEqual({
      'requests at the gateway': expect.closeTo(3.5),
      'requests at the function': expect.closeTo(0.2),
      'seconds of the function': expect.closeTo(2e6 * (1769 / 1024) * 0.0000133334),
      'lines of the log for requests': expect.closeTo(0.5),
      'metrics told by the function': expect.closeTo(9 * 0.3),
    });
  });

  it('counts requests at a firewall if there is one before the gateway', () => {
    const { load, streamsForContainers } = estimateDeployment(everything(), MILLION);
    expect(dollarsOf(load)['requests at firewalls']).toBeCloseTo(0.6);
    expect(streamsForContainers).toBeCloseTo(1.4, 1);
  });
});

describe('the worst that a deployment may cost', () => {
  const hour = 3600 * (1769 / 1024) * 0.0000133334;
  const hoursOf = (stacks: readonly Stack[]) =>
    estimateDeployment(stacks, IDLE).worst.functions.map(({ streams, part }) => [streams, part.dollars / 730]);

  it.each([
    ['what production reserves', production(), [[200, 200 * hour]]],
    ['what the file reserves', production({ edges: { function: { concurrencyMax: 50 } } }), [[50, 50 * hour]]],
    [
      'a bound and what accounts have, if nothing is reserved',
      production({ edges: { function: { concurrencyMax: 'account' } } }),
      [
        [200, 200 * hour],
        [1000, 1000 * hour],
      ],
    ],
  ] as const)('has as many streams as %s', (_, stacks, expected) => {
    expect(hoursOf(stacks)).toEqual(expected.map(([streams, dollars]) => [streams, expect.closeTo(dollars)]));
  });

  it('has edges at their most, requests at the limits of gateway and firewalls, and all metrics', () => {
    const month = 730 * 3600;
    const { parts } = estimateDeployment(everything(), IDLE).worst;
    expect(countsOf(parts)).toEqual({
      'more tasks of Stator-Edge/Edge': 6,
      'capacity units of load balancers': 4, // 100 new connections a second
      'requests at the gateway': 100 * month,
      'requests at firewalls': 200 * month,
      'requests at the function': 100 * month,
      'lines of the log for requests': 200 * month,
      'metrics told by log while asked': 9 + 8,
    });
    const limited = production({ limits: { requestsPerSecond: 10 }, edges: { container: { tasksMax: 3 } } });
    const fewer = countsOf(estimateDeployment(limited, IDLE).worst.parts);
    expect(fewer).toMatchObject({ 'more tasks of Stator-Edge/Edge': 1, 'requests at the gateway': 10 * month });
  });

  it('stands beside what is always paid, by the hour and by the month', () => {
    const estimate = estimateDeployment(production(), IDLE);
    const worst = sum(estimate.idle) + sum(estimate.worst.parts) + estimate.worst.functions[0]!.part.dollars;
    const text = renderEstimate(estimate);
    const numbers = (name: string) => new RegExp(`^${name} +([\\d.]+) +([\\d.]+)$`, 'm').exec(text)?.slice(1);
    expect(numbers('idle')).toEqual([sum(estimate.idle).toFixed(2), (sum(estimate.idle) / 730).toFixed(2)]);
    expect(numbers('the worst, with 200 streams at the function')).toEqual([
      worst.toFixed(2),
      (worst / 730).toFixed(2),
    ]);
    expect(text).toContain('A request that waits 120 s for a worker costs 0.0028 at the function');
    expect(text).toMatch(/^- .*between zones/m);
    expect(text).toMatch(/^- .*gateway charges for streaming/m);
  });
});

describe('docs/deploy.md', () => {
  const docs = readFileSync('docs/deploy.md', 'utf8');
  const [dev, full] = [DEV, production()].map((stacks) => estimateDeployment(stacks, IDLE)) as [Estimate, Estimate];

  it('has the prices that the command prints', () => {
    const [ofDev, ofFull] = [dollarsOf(dev.idle), dollarsOf(full.idle)];
    const names = [...new Set([...dev.idle, ...full.idle].map(({ name }) => name))];
    const row = (name: string, a: number | undefined, b: number | undefined) =>
      `| ${name} | ${a?.toFixed(2) ?? '-'} | ${b?.toFixed(2) ?? '-'} |`;
    expect(/(?<=US\$ a month \| dev.*\n.*\n)(\|.*\n)+/.exec(docs)?.[0].trimEnd().split('\n')).toEqual([
      ...names.map((name) => row(name, ofDev[name], ofFull[name])),
      row('**idle**', sum(dev.idle), sum(full.idle)),
    ]);
  });

  it('has the price of a model at rest, as the page of the planner has', () => {
    const { idle } = estimateDeployment(production(GPUS), IDLE);
    const { count, dollars } = idle.find(({ name }) => name === 'models that the planner looks at each minute')!;
    const each = `about ${(dollars / count).toFixed(2)} US$`;
    expect(docs).toContain(`Each model adds ${each}`);
    expect(readFileSync('docs/planner.md', 'utf8')).toContain(`A model without workers costs ${each} a month`);
  });

  it('says the sums, and the worst hour and month, in round numbers', () => {
    expect(docs).toContain(`An idle dev stack costs about ${Math.round(sum(dev.idle))} US$ a month`);
    expect(docs).toContain(`production about ${Math.round(sum(full.idle))} (`);
    expect(readFileSync('README.md', 'utf8')).toContain(`about US$${Math.round(sum(dev.idle))} a month when idle`);
    const worst = (estimate: Estimate, at: number) =>
      sum(estimate.idle) + sum(estimate.worst.parts) + estimate.worst.functions[at]!.part.dollars;
    const words = (dollars: number) =>
      `${Math.round(dollars / 730)} an hour and ${Math.round(dollars).toLocaleString('en')} a month`;
    expect(docs).toContain(`production ${words(worst(full, 0))}`);
    expect(docs).toContain(`dev ${words(worst(dev, 1))}`);
  });
});
