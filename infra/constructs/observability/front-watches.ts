import { Duration } from 'aws-cdk-lib';
import { MathExpression, Metric } from 'aws-cdk-lib/aws-cloudwatch';
import type { Settings } from '../../settings/index.ts';
import { MINUTE } from '../metrics.ts';
import type { PublicFront } from '../public-front.ts';
import type { Watch } from './alarms.ts';

/** A minute in which as many requests are placed without the router is one in which it is missed. */
const FALLBACKS_MAX = 5;
/** Share of the requests. */
export const INTERNAL_ERRORS_MAX = 0.01;
const SERVER_ERRORS_MAX = 0.05;
/** Streams end 10 s before the function does, which may take 900. */
const DURATION_MS_MAX = 870_000;
const CONCURRENCY_PERCENT = 80;
/** Releases are watched for five minutes. */
const RELEASE_PERIODS = [2, 3] as const;

/**
 * Alarms that stop a release and bring the previous one back. They watch only the new release. Otherwise the outage
 * that it mends would stop it.
 */
export function releaseWatches({ function: http }: PublicFront): readonly Watch[] {
  return [
    {
      id: 'ReleaseErrors',
      metric: http.metricReleaseErrors(),
      threshold: 1,
      about: 'invocations of the new release fail',
      paragraph: 'a-release-fails',
      missing: 'quiet',
      periods: RELEASE_PERIODS,
    },
    {
      id: 'ReleaseInternalErrors',
      metric: http.metricReleaseInternalErrors(),
      threshold: INTERNAL_ERRORS_MAX,
      about: 'requests to the new release fail by faults of Stator itself',
      paragraph: 'a-release-fails',
      missing: 'quiet',
      periods: RELEASE_PERIODS,
    },
  ];
}

/** Returns the watch of the API: the share of its answers that are 5xx, whatever the cause. */
export function apiWatch({ api }: PublicFront): Watch {
  return {
    id: 'ServerErrors',
    metric: api.metricServerErrors({ statistic: 'Average' }), // each request is a 0 or a 1
    threshold: SERVER_ERRORS_MAX,
    about: 'the API answers 5xx',
    paragraph: 'the-api-answers-5xx',
    missing: 'quiet',
  };
}

export function ttftWatch({ function: http }: PublicFront, { ttftP99Secs }: Settings['alarms']): Watch {
  return {
    id: 'Ttft',
    metric: http.metricOfRequests('TimeToFirstToken', { statistic: 'p99' }),
    threshold: ttftP99Secs * 1000,
    about: 'first tokens are late',
    paragraph: 'first-tokens-are-late',
    missing: 'quiet',
  };
}

/** Returns watches of the function, in every stage. */
export function functionWatches({ function: http }: PublicFront): readonly Watch[] {
  return [
    {
      id: 'FunctionErrors',
      metric: http.metricErrors(),
      threshold: 1,
      about: 'invocations of the function fail',
      paragraph: 'the-function-fails',
      missing: 'quiet',
    },
    {
      id: 'InternalErrors',
      metric: http.metricOfRequests('InternalErrors', { statistic: 'Average' }),
      threshold: INTERNAL_ERRORS_MAX,
      about: 'requests fail by faults of Stator itself',
      paragraph: 'faults-of-stators-own',
      missing: 'quiet',
    },
    {
      id: 'Throttles',
      metric: http.metricThrottles(),
      threshold: 1,
      about: 'requests are refused because no concurrency is left',
      paragraph: 'no-concurrency-is-left',
      missing: 'quiet',
    },
    {
      id: 'Router',
      metric: http.metricOfRequests('RouterFallbacks', { statistic: 'Sum' }),
      threshold: FALLBACKS_MAX,
      about: 'the router is degraded or away',
      paragraph: 'the-router-is-away',
      missing: 'quiet',
    },
  ];
}

/** Returns watches of the function that fire before clients notice. */
export function functionLimitWatches({ function: http }: PublicFront, concurrencyMax?: number): readonly Watch[] {
  return [
    {
      id: 'Concurrency',
      metric: concurrencyMax === undefined ? accountConcurrency() : http.metricConcurrency(),
      threshold: concurrencyMax === undefined ? CONCURRENCY_PERCENT : (concurrencyMax * CONCURRENCY_PERCENT) / 100,
      about: `${CONCURRENCY_PERCENT} % of the streams that may run at a time are in use`,
      paragraph: 'concurrency-runs-out',
      missing: 'quiet',
    },
    {
      id: 'Duration',
      metric: http.metricDuration({ statistic: 'p99' }),
      threshold: DURATION_MS_MAX,
      about: 'streams reach the time limit of the function',
      paragraph: 'streams-reach-the-time-limit',
      missing: 'quiet',
    },
  ];
}

/** Percent of the account's limit, for all functions together. */
function accountConcurrency(): MathExpression {
  const used = new Metric({
    namespace: 'AWS/Usage',
    metricName: 'ResourceCount',
    dimensionsMap: { Service: 'Lambda', Resource: 'ConcurrentExecutions', Type: 'Resource', Class: 'None' },
    statistic: 'Maximum',
    period: MINUTE,
  });
  return new MathExpression({
    expression: '100 * used / SERVICE_QUOTA(used)',
    usingMetrics: { used },
    period: MINUTE,
    label: 'Concurrent executions, % of the account',
  });
}

/** Certificates of ACM tell once a day how long they last. */
export function certificateWatch(certificateArn: string): Watch {
  return {
    id: 'Certificate',
    metric: new Metric({
      namespace: 'AWS/CertificateManager',
      metricName: 'DaysToExpiry',
      dimensionsMap: { CertificateArn: certificateArn },
      statistic: 'Minimum',
      period: Duration.days(1),
    }),
    threshold: 30,
    isBelow: true,
    about: 'the certificate expires within 30 days',
    paragraph: 'a-certificate-expires',
    missing: 'asBefore',
    periods: [1, 1],
  };
}
