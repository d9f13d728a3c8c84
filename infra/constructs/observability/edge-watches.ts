import { MathExpression } from 'aws-cdk-lib/aws-cloudwatch';
import { HttpCodeElb, HttpCodeTarget } from 'aws-cdk-lib/aws-elasticloadbalancingv2';
import type { Settings } from '../../settings/index.ts';
import type { EdgeBalancer } from '../edge-balancer.ts';
import type { EdgeService } from '../edge-service.ts';
import { embeddedMetric, FIVE_MINUTES, MINUTE, serviceMetric } from '../metrics.ts';
import type { NatsService } from '../nats-service.ts';
import type { Watch } from './alarms.ts';
import { INTERNAL_ERRORS_MAX } from './front-watches.ts';

/** Percent of the disk of a NATS server: four fifths of what JetStream may fill. */
const NATS_DISK_PERCENT = 60;
const VIEW_AGE_SECS_MAX = 5;
const SECRET_AGE_DAYS_MAX = 180;
const BALANCER_ERRORS_MAX = 5;
const SERVER_ERRORS_PERCENT = 5;
/** Handshakes that are refused a minute because of the internet's noise. */
const REFUSED_HANDSHAKES_MAX = 100;

/** Returns watches of models that must always have a worker. They fire before a request is refused. */
export function noWorkerWatches(service: string, models: Settings['models']): readonly Watch[] {
  const wanted = Object.entries(models).flatMap(([model, settings]) => (settings.wanted ? [model] : []));
  return wanted.map((model, at) => ({
    id: at === 0 ? 'NoWorker' : `NoWorker${at}`,
    metric: embeddedMetric('Workers', { Service: service }, { dimensionsMap: { Model: model }, statistic: 'Minimum' }),
    threshold: 1,
    isBelow: true,
    about: `the wanted model ${model} has no worker`,
    paragraph: 'a-wanted-model-has-no-worker',
    missing: 'broken',
  }));
}

/** Returns watches of the edge's tasks and of what they know of the fleet. */
export function edgeWatches(edge: EdgeService, tasks: number): readonly Watch[] {
  return [
    {
      id: 'RouterTasks',
      metric: serviceMetric('RunningTaskCount', edge.service),
      threshold: tasks,
      isBelow: true,
      about: 'fewer container edges run than the settings ask for',
      paragraph: 'the-router-is-away',
      missing: 'broken',
    },
    {
      id: 'ViewAge',
      metric: edge.metric('ViewAge', { statistic: 'Maximum' }),
      threshold: VIEW_AGE_SECS_MAX,
      about: 'container edges see an old view of the fleet',
      paragraph: 'the-fleet-view-is-old',
      missing: 'broken',
    },
    {
      id: 'FailedRecoveries',
      metric: edge.metric('FailedRecoveries', { statistic: 'Sum', period: FIVE_MINUTES }),
      threshold: 1,
      about: 'container edges cannot read what some workers have cached',
      paragraph: 'cached-blocks-of-workers-are-not-known',
      missing: 'quiet',
      periods: [2, 3], // a recovery takes up to four minutes and a half before it is given up
    },
    {
      id: 'SecretAge',
      metric: edge.metric('SecretAge', { statistic: 'Maximum' }),
      threshold: SECRET_AGE_DAYS_MAX,
      about: `the secrets of the fleet have not been rotated for ${SECRET_AGE_DAYS_MAX} days`,
      paragraph: 'secrets-are-old',
      missing: 'asBefore',
    },
  ];
}

/** Returns watches of what clients of the edge get, from the logs of its tasks. */
export function edgeClientWatches(edge: EdgeService, { ttftP99Secs }: Settings['alarms']) {
  return {
    internal: {
      id: 'EdgeInternalErrors',
      metric: edge.metric('InternalErrors', { statistic: 'Average' }),
      threshold: INTERNAL_ERRORS_MAX,
      about: 'requests at the container edge fail by faults of Stator itself',
      paragraph: 'faults-of-stators-own',
      missing: 'quiet',
    },
    ttft: {
      id: 'EdgeTtft',
      metric: edge.metric('TimeToFirstToken', { statistic: 'p99' }),
      threshold: ttftP99Secs * 1000,
      about: 'first tokens at the container edge are late',
      paragraph: 'first-tokens-are-late',
      missing: 'quiet',
    },
  } as const satisfies Record<string, Watch>;
}

/** Returns watches of the load balancer: its own answers, those of the tasks, and whether it reaches them. */
export function balancerWatches({ balancer, targets, isPublic }: EdgeBalancer) {
  const { metrics } = balancer;
  const sum = { period: MINUTE, statistic: 'Sum' };
  const serverErrors: Watch = {
    id: 'EdgeServerErrors',
    metric: new MathExpression({
      expression: '100 * FILL(failed, 0) / requests',
      usingMetrics: {
        failed: metrics.httpCodeTarget(HttpCodeTarget.TARGET_5XX_COUNT, sum),
        requests: metrics.requestCount(sum),
      },
      period: MINUTE,
      label: '5xx, % of requests',
    }),
    threshold: SERVER_ERRORS_PERCENT,
    about: 'the container edge answers 5xx',
    paragraph: 'the-container-edge-answers-5xx',
    missing: 'quiet',
  };
  const own: Watch = {
    id: 'BalancerErrors',
    metric: metrics.httpCodeElb(HttpCodeElb.ELB_5XX_COUNT, sum),
    threshold: BALANCER_ERRORS_MAX,
    about: 'the load balancer itself answers 5xx',
    paragraph: 'the-load-balancer-answers-5xx',
    missing: 'quiet',
  };
  const others = Object.entries(targets).map(([name, group]) => ({
    id: `${name}Unhealthy`,
    metric: group.metrics.unhealthyHostCount({ period: MINUTE, statistic: 'Maximum' }),
    threshold: 1,
    about: 'a container edge fails the health checks of the load balancer',
    paragraph: 'an-edge-is-unhealthy',
    missing: 'broken',
  })) satisfies readonly Watch[];
  const refused: Watch = {
    id: 'RefusedTls',
    metric: metrics.clientTlsNegotiationErrorCount(sum),
    threshold: REFUSED_HANDSHAKES_MAX,
    about: 'clients and the load balancer cannot agree on TLS',
    paragraph: 'clients-are-refused-by-tls',
    missing: 'quiet',
  };
  return { serverErrors, own, others: isPublic ? [...others, refused] : others };
}

/** Returns watches of the NATS servers. */
export function natsWatches({ services }: NatsService): readonly Watch[] {
  const named = (prefix: string, metricName: string, statistic: string) =>
    Object.fromEntries(
      services.map((service, at) => [`${prefix}${at}`, serviceMetric(metricName, service, { statistic })]),
    );
  const list = (prefix: string): string => services.map((_, at) => `${prefix}${at}`).join(', ');
  return [
    {
      id: 'NatsTasks',
      metric: new MathExpression({
        expression: `MIN([${list('running')}])`,
        usingMetrics: named('running', 'RunningTaskCount', 'Minimum'),
        period: MINUTE,
        label: 'Tasks of the server that has fewest',
      }),
      threshold: 1,
      isBelow: true,
      about: 'a NATS server is missing',
      paragraph: 'a-nats-server-is-missing',
      missing: 'broken',
    },
    {
      id: 'NatsStorage',
      metric: new MathExpression({
        expression: `100 * MAX([${list('used')}]) / MIN([${list('disk')}])`,
        usingMetrics: {
          ...named('used', 'EphemeralStorageUtilized', 'Maximum'),
          ...named('disk', 'EphemeralStorageReserved', 'Minimum'),
        },
        period: MINUTE,
        label: 'Disk of the fullest server, %',
      }),
      threshold: NATS_DISK_PERCENT,
      about: 'the disk of a NATS server fills up',
      paragraph: 'the-disk-of-nats-fills-up',
      missing: 'broken',
    },
  ];
}
