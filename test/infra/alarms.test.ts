import { readFileSync } from 'node:fs';
import { Annotations, Match, type Template } from 'aws-cdk-lib/assertions';
import { describe, expect, it } from 'vitest';
import {
  EMBEDDED_METRICS,
  EMBEDDED_NAMESPACE,
  type EmbeddedMetric,
  INDEX_METRICS,
  type IndexMetric,
  PLANNER_METRICS,
  type PlannerMetric,
  POD_METRICS,
  type PodMetric,
} from '../../shared/telemetry/index.ts';
import { awsMetrics } from './aws-metrics.ts';
import { DEPLOYMENTS, type Deployment, deploymentOf } from './deployments.ts';
import { openApp, productionStacks, productionTemplates, type Resource, templatesIn } from './templates.ts';

const TOPIC = 'arn:aws:sns:eu-west-1:123456789012:oncall';
const PAGES = 'arn:aws:sns:eu-west-1:123456789012:pages';
const alarmed = (name: Deployment) => deploymentOf(name, { alarms: { topicArn: TOPIC, pageTopicArn: PAGES } });

interface Stat {
  readonly Namespace: string;
  readonly MetricName: string;
  readonly Dimensions?: readonly { readonly Name: string; readonly Value: unknown }[];
}

interface Alarm {
  readonly AlarmName?: string;
  readonly AlarmDescription: string;
  readonly AlarmActions?: readonly unknown[];
  readonly OKActions?: readonly unknown[];
  readonly TreatMissingData?: string;
  readonly Metrics?: readonly { readonly MetricStat?: { readonly Metric: Stat } }[];
}

/** Links to headings as GitHub makes them. */
function anchorsOf(file: string): ReadonlySet<string> {
  const headings = readFileSync(file, 'utf8').match(/^#+ .+$/gm) ?? [];
  const slug = (heading: string): string =>
    heading
      .replace(/^#+ /, '')
      .toLowerCase()
      .replaceAll(/[^a-z0-9 -]/g, '')
      .replaceAll(' ', '-');
  return new Set(headings.map(slug));
}

function statsOf(alarm: Alarm): readonly Stat[] {
  if (alarm.Metrics === undefined) return [alarm as unknown as Stat];
  return alarm.Metrics.flatMap(({ MetricStat }) => (MetricStat === undefined ? [] : [MetricStat.Metric]));
}

const dimensionsOf = ({ Dimensions = [] }: Stat) => Dimensions.map(({ Name }) => Name);
const labelOf = ({ Dimensions = [] }: Stat, name: string) => Dimensions.find(({ Name }) => Name === name)?.Value;

describe.each(DEPLOYMENTS)('the alarms of %s', (name) => {
  const resources = alarmed(name);
  const of = (type: string) => resources.filter(([, { Type }]) => Type === type);
  const alarms = of('AWS::CloudWatch::Alarm').map(
    ([id, { Properties }]) => [id, Properties as unknown as Alarm] as const,
  );
  const anchors = anchorsOf('docs/operations.md');

  it('are there', () => {
    expect(alarms.length).toBeGreaterThanOrEqual(name === 'dev' ? 7 : 18);
    expect(of('AWS::CloudWatch::CompositeAlarm')).toHaveLength(name === 'dev' ? 0 : 1);
  });

  it.each(alarms)('%s says what it is about, tells when it begins and ends, and what silence means', (_id, alarm) => {
    const [, anchor] = /^Stator: .+\. docs\/operations\.md#([a-z0-9-]+)$/.exec(alarm.AlarmDescription) ?? [];
    expect([...anchors]).toContain(anchor);
    expect([alarm.AlarmActions, alarm.OKActions]).toEqual([[TOPIC], [TOPIC]]);
    expect(alarm.TreatMissingData).toMatch(/^(breaching|notBreaching|ignore)$/);
  });

  it('take silence for a fault where something should tell of itself all the time', () => {
    const silent = alarms.filter(([, { TreatMissingData }]) => TreatMissingData === 'breaching');
    const names = silent.map(([id]) => /^Observability(.*)Alarm[0-9A-F]{8}$/.exec(id)?.[1]).sort();
    const lasting = ['NatsStorage', 'NatsTasks', 'NoWorker', 'RouterTasks', 'ViewAge'];
    const planner = name === 'gpus' || name === 'pods' ? ['PlannerSilent'] : [];
    const behind = name === 'everything' ? ['GrpcUnhealthy', 'HttpUnhealthy'] : [];
    expect(names).toEqual(name === 'dev' ? ['NoWorker'] : [...behind, ...lasting, ...planner].sort());
  });

  it('tell of a wanted model by its workers: before a request for it is refused', () => {
    const [[, alarm] = []] = alarms.filter(([id]) => id.startsWith('ObservabilityNoWorker'));
    const [stat, ...others] = alarm === undefined ? [] : statsOf(alarm);
    expect(others).toEqual([]);
    expect(stat).toMatchObject({ MetricName: 'Workers' });
    expect(stat && labelOf(stat, 'Model')).toBe('stator-mini');
  });

  it.each(alarms)('%s watches what something tells, by those dimensions', (_id, alarm) => {
    const stats = statsOf(alarm);
    expect(stats.length).toBeGreaterThan(0);
    for (const stat of stats) {
      if (stat.Namespace === EMBEDDED_NAMESPACE) expectTold(stat, resources);
      else expect(awsMetrics[stat.Namespace]?.[stat.MetricName] ?? []).toContain(dimensionsOf(stat).sort().join());
    }
  });

  it('count events by rules of the same deployment, and machines by groups of it', () => {
    // Rules that send events on are not counted.
    const rules = of('AWS::Events::Rule').flatMap(([id, { Properties }]) =>
      Properties.Targets === undefined ? [id] : [],
    );
    const groups = of('AWS::AutoScaling::AutoScalingGroup').map(([id]) => id);
    const named = (namespace: string, label: string) =>
      alarms
        .flatMap(([, alarm]) => statsOf(alarm))
        .filter(({ Namespace }) => Namespace === namespace)
        .map((stat) => (labelOf(stat, label) as { readonly Ref: string }).Ref);
    expect([...new Set(named('AWS/Events', 'RuleName'))].sort()).toEqual([...new Set(rules)].sort());
    expect([...new Set(named('AWS/AutoScaling', 'AutoScalingGroupName'))].sort()).toEqual([...new Set(groups)].sort());
    expect(rules.length > 0 && groups.length > 0).toBe(name === 'gpus');
  });

  it('tell of pods without a node and of pods that do not start, for each model with pods', () => {
    const ofPods = alarms.filter(([id]) => /^Observability(NodesMissing|StartsFailed)\d/.test(id));
    expect(ofPods).toHaveLength(name === 'pods' ? 4 : 0);
  });

  it('tell of edges that cannot read what workers have cached, once that has lasted', () => {
    const [[, alarm] = [], ...others] = alarms.filter(([id]) => id.startsWith('ObservabilityFailedRecoveries'));
    expect(others).toEqual([]);
    if (name === 'dev') return expect(alarm).toBeUndefined();
    const counted = { MetricStat: { Metric: { MetricName: 'FailedRecoveries' }, Stat: 'Sum', Period: 300 } };
    expect(alarm).toMatchObject({ Metrics: [counted], DatapointsToAlarm: 2, EvaluationPeriods: 3, Threshold: 1 });
  });

  it('watch every table there is, within the ten metrics that an alarm may have', () => {
    if (name === 'dev') return;
    const tables = [...of('AWS::DynamoDB::Table'), ...of('AWS::DynamoDB::GlobalTable')].map(([id]) => id);
    const throttles = alarms.filter(([id]) => id.startsWith('ObservabilityTableThrottles'));
    const watched = throttles
      .flatMap(([, alarm]) => statsOf(alarm))
      .map((stat) => (labelOf(stat, 'TableName') as { readonly Ref: string }).Ref);
    expect([...new Set(watched)].sort()).toEqual(tables.sort());
    for (const [, alarm] of alarms) expect(statsOf(alarm).length).toBeLessThanOrEqual(10);
  });

  it('page a person with only one alarm, which waits for the others that exist', () => {
    for (const [, { Properties }] of of('AWS::CloudWatch::CompositeAlarm')) {
      const page = Properties as unknown as Alarm & { readonly AlarmRule: unknown };
      expect(page.AlarmName).toBe('Stator-Edge-Customer-Impact');
      expect([page.AlarmActions, page.OKActions]).toEqual([[PAGES], [PAGES]]);
      expect([...anchors]).toContain(page.AlarmDescription.split('#')[1]);
      const causes = JSON.stringify(page.AlarmRule).match(/(ServerErrors|BalancerErrors|Ttft|NoWorker)Alarm/g);
      expect(new Set(causes).size).toBe(name === 'everything' ? 4 : 3);
    }
  });
});

/** Fails where no process of the deployment tells a metric of the product by these dimensions. */
function expectTold(stat: Stat, resources: readonly (readonly [string, Resource])[]): void {
  const isOfPlanner = stat.MetricName in PLANNER_METRICS || stat.MetricName in POD_METRICS;
  const told = { ...EMBEDDED_METRICS, ...INDEX_METRICS, ...PLANNER_METRICS, ...POD_METRICS };
  const { by } = told[stat.MetricName as EmbeddedMetric | IndexMetric | PlannerMetric | PodMetric];
  const [who = '', ...labels] = dimensionsOf(stat).sort((one, other) => Number(isWho(other)) - Number(isWho(one)));
  expect(by.map((set: readonly string[]) => set.join())).toContain(labels.join());
  if (who === 'FunctionName') {
    const { Ref } = labelOf(stat, who) as { readonly Ref: string };
    const [, teller] = resources.find(([id]) => id === Ref) ?? [];
    expect(teller).toMatchObject({ Type: 'AWS::Lambda::Function', Properties: { Handler: 'index.handler' } });
    if (isOfPlanner) expect(teller?.Properties.Description).toMatch(/^Stator: planner/);
    const lasting = ['ActiveStreams', 'Workers', 'ViewAge', 'SecretAge', 'FailedRecoveries'];
    expect(lasting).not.toContain(stat.MetricName); // of processes that last
    return;
  }
  expect(who).toBe('Service');
  const tellers = resources
    .filter(([, { Type }]) => Type === 'AWS::ECS::TaskDefinition')
    .flatMap(
      ([, { Properties }]) => Properties.ContainerDefinitions as { Environment?: { Name: string; Value: unknown }[] }[],
    )
    .map(({ Environment = [] }) => Object.fromEntries(Environment.map(({ Name, Value }) => [Name, Value])))
    .filter((env) => env.STATOR_EMF === 'on' && env.STATOR_EMF_SERVICE === labelOf(stat, who));
  expect(tellers).toHaveLength(1);
  const ofRequests = !['Workers', 'ViewAge', 'SecretAge', 'FailedRecoveries'].includes(stat.MetricName);
  if (ofRequests) expect(tellers[0]?.STATOR_ROLES).toMatch(/http/);
}

const isWho = (name: string): boolean => name === 'FunctionName' || name === 'Service';

describe('failures that no client would report', () => {
  it('is warned of where production has no topic', () => {
    const edge = (alarms: object) => {
      const { children } = productionStacks(openApp(), { alarms }).node;
      return Annotations.fromStack(children.find(({ node }) => node.id === 'Edge') as never);
    };
    edge({}).hasWarning('*', Match.stringLikeRegexp('alarms.topicArn'));
    edge({ topicArn: TOPIC }).hasNoWarning('*', Match.stringLikeRegexp('alarms.topicArn'));
  });
});

describe('what stops a release', () => {
  const rolloutOf = (template: Template) =>
    Object.values(template.findResources('AWS::CodeDeploy::DeploymentGroup'))[0]?.Properties as {
      DeploymentConfigName: string;
      AlarmConfiguration: { Alarms?: { Name: { Ref: string } }[]; Enabled: boolean };
      AutoRollbackConfiguration?: { Enabled: boolean; Events: string[] };
    };

  it('comes only from the new release: errors of its invocations, and its own faults, which refusals are not', () => {
    const template = productionTemplates().Edge!;
    const resources = (template.toJSON() as { Resources: Record<string, Resource> }).Resources;
    const watched = (rolloutOf(template).AlarmConfiguration.Alarms ?? []).map(
      ({ Name }) => resources[Name.Ref]!.Properties as unknown as Alarm,
    );
    const stats = watched.flatMap(statsOf);
    expect(stats.map(({ Namespace, MetricName }) => `${Namespace} ${MetricName}`)).toEqual([
      'AWS/Lambda Errors',
      'Stator InternalErrors',
    ]);
    const versions = Object.keys(template.findResources('AWS::Lambda::Version'));
    expect(versions).toHaveLength(1);
    const ofRelease = { 'Fn::GetAtt': [versions[0], 'Version'] };
    expect(stats.map((stat) => labelOf(stat, 'ExecutedVersion') ?? labelOf(stat, 'FunctionVersion'))).toEqual([
      ofRelease,
      ofRelease,
    ]);
    // An average of zeros and ones: a rate.
    expect(watched[1]).toMatchObject({ Threshold: 0.01, EvaluationPeriods: 3, DatapointsToAlarm: 2 });
    expect(watched[1]?.Metrics).toMatchObject([{ MetricStat: { Stat: 'Average' } }]);
  });

  it('is nothing with -c rollout=now, which hands it all requests at once', () => {
    const urgent = rolloutOf(templatesIn(productionStacks(openApp(), {}, 'now')).Edge!);
    expect(urgent.DeploymentConfigName).toBe('CodeDeployDefault.LambdaAllAtOnce');
    expect(urgent.AlarmConfiguration).toMatchObject({ Enabled: false });
    expect(urgent.AlarmConfiguration.Alarms ?? []).toEqual([]);
    expect(urgent.AutoRollbackConfiguration?.Events ?? []).not.toContain('DEPLOYMENT_STOP_ON_ALARM');
  });
});

describe('the number of streams by which the edge is scaled', () => {
  it('is that of a task, as tasks tell it: connections have a hundred streams, or none', () => {
    const policies = deploymentOf('everything').filter(
      ([, { Type }]) => Type === 'AWS::ApplicationAutoScaling::ScalingPolicy',
    );
    const custom = policies.flatMap(([, { Properties }]) => {
      const { CustomizedMetricSpecification: metric } = Properties.TargetTrackingScalingPolicyConfiguration as {
        CustomizedMetricSpecification?: Stat & { Statistic: string };
      };
      return metric === undefined ? [] : [metric];
    });
    expect(custom).toMatchObject([{ MetricName: 'ActiveStreams', Statistic: 'Average' }]);
    for (const metric of custom) expectTold(metric, deploymentOf('everything'));
  });
});

describe('what listens to the internet', () => {
  const resources = deploymentOf('everything', { alarms: { topicArn: TOPIC } });
  const of = (type: string) => resources.filter(([, { Type }]) => Type === type);
  const open = of('AWS::ElasticLoadBalancingV2::LoadBalancer').filter(
    ([, { Properties }]) => Properties.Scheme === 'internet-facing',
  );
  const listeners = [...open, ...of('AWS::ApiGateway::Stage')].map(([id]) => id);

  it('is a load balancer and a stage of an API', () => {
    expect(listeners).toHaveLength(2);
  });

  it.each(listeners)('%s has a firewall with the limits that are set', (id) => {
    const guarding = of('AWS::WAFv2::WebACLAssociation').filter(([, { Properties }]) =>
      JSON.stringify(Properties.ResourceArn).includes(`"${id}"`),
    );
    expect(guarding).toHaveLength(1);
    const {
      'Fn::GetAtt': [acl],
    } = guarding[0]![1].Properties.WebACLArn as { 'Fn::GetAtt': [string] };
    const [, list] = of('AWS::WAFv2::WebACL').find(([each]) => each === acl)!;
    const limits = (list.Properties.Rules as { Statement: { RateBasedStatement: Record<string, unknown> } }[]).map(
      ({ Statement: { RateBasedStatement: rate } }) =>
        `${rate.AggregateKeyType} ${rate.Limit} in ${rate.EvaluationWindowSec}`,
    );
    const isBalancer = open.some(([each]) => each === id);
    // The stage throttles all callers together itself.
    expect(limits).toEqual(['IP 1000 in 300', ...(isBalancer ? ['CONSTANT 6000 in 60'] : [])]);
    if (!isBalancer) return;
    const bodies = list.Properties.CustomResponseBodies as Record<string, { Content: string }>;
    expect(JSON.parse(bodies['too-many']!.Content)).toMatchObject({ error: { code: 'rate_limit_exceeded' } });
  });

  it('has a rate of its own at the load balancer also where no address is limited, and none inside of the VPC', () => {
    const domain = {
      name: 'a.example.com',
      containerName: 'b.example.com',
      certificateArn: 'arn:aws:acm:eu-west-1:123456789012:certificate/a',
    };
    const acls = (config: object) =>
      Object.values(templatesIn(productionStacks(openApp(), config)).Edge!.findResources('AWS::WAFv2::WebACL'));
    const [list, ...others] = acls({
      edges: { container: { listener: 'public' } },
      domain,
      limits: { requestsPerSecond: 5 },
    });
    expect(others).toEqual([]);
    expect(list?.Properties.Rules).toMatchObject([{ Statement: { RateBasedStatement: { Limit: 300 } } }]);
    expect(acls({ edges: { container: { listener: 'internal' } } })).toEqual([]);
  });

  it.each(listeners)('%s has at least four alarms', (id) => {
    const isBalancer = open.some(([each]) => each === id);
    const paths = isBalancer
      ? /^Observability(Edge|Balancer|Http|Grpc|RefusedTls)/
      : /^Observability(Server|Function|Internal|Throttles|Ttft|Duration|Concurrency)/;
    const own = of('AWS::CloudWatch::Alarm').filter(([alarm]) => paths.test(alarm));
    expect(own.length).toBeGreaterThanOrEqual(4);
  });
});
