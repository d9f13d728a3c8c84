import { Duration } from 'aws-cdk-lib';
import {
  Alarm,
  ComparisonOperator,
  Dashboard,
  GraphWidget,
  type IAlarm,
  type MathExpression,
  Metric,
  TreatMissingData,
} from 'aws-cdk-lib/aws-cloudwatch';
import { SnsAction } from 'aws-cdk-lib/aws-cloudwatch-actions';
import { Topic } from 'aws-cdk-lib/aws-sns';
import { Construct } from 'constructs';
import type { Settings } from '../settings/index.ts';
import type { EdgeService } from './edge-service.ts';
import type { PublicFront } from './public-front.ts';

export interface ObservabilityProps {
  readonly front: PublicFront;
  /** @default none: its task is another one's */
  readonly edge?: EdgeService;
  readonly settings: Settings;
}

interface Watch {
  readonly id: string;
  readonly metric: Metric | MathExpression;
  readonly threshold: number;
  /** What it says, in a few words. */
  readonly about: string;
  /** Heading of docs/operations.md, as its link has it. */
  readonly paragraph: string;
  /** Minutes of the last five. @default 3 */
  readonly minutes?: number;
  readonly comparison?: ComparisonOperator;
}

/** A minute in which as many requests are placed without the router is one in which it is missed. */
const FALLBACKS_MAX = 5;

/** A dashboard and the alarms of a deployment. Each alarm names the paragraph of docs/operations.md that says what to do. */
export class Observability extends Construct {
  /** Those that stop a release and bring the one before back. */
  readonly releaseAlarms: readonly IAlarm[];
  readonly #topic: SnsAction | undefined;

  constructor(scope: Construct, id: string, { front, edge, settings }: ObservabilityProps) {
    super(scope, id);
    const { topicArn, ttftP99Secs } = settings.alarms;
    this.#topic = topicArn === undefined ? undefined : new SnsAction(Topic.fromTopicArn(this, 'Topic', topicArn));
    const { api, function: http } = front;
    const ttft = http.metricOfRequests('TimeToFirstToken');
    const unserved = http.metricOfRequests('Unserved', { statistic: 'Sum' });
    const fallbacks = http.metricOfRequests('RouterFallbacks', { statistic: 'Sum' });
    const wanted = Object.entries(settings.models).flatMap(([model, { wanted }]) => (wanted ? [model] : []));
    const [functionErrors, apiErrors] = [
      {
        id: 'FunctionErrors',
        metric: http.metricErrors(),
        threshold: 1,
        about: 'invocations of the function fail',
        paragraph: 'the-function-fails',
      },
      {
        id: 'ServerErrors',
        metric: api.metricServerErrors(),
        threshold: 1,
        about: 'the API answers 5xx',
        paragraph: 'the-api-answers-5xx',
      },
    ].map((watch) => this.#watch(watch));
    this.releaseAlarms = [functionErrors!, apiErrors!];
    const watches: readonly Watch[] = [
      {
        id: 'Throttles',
        metric: http.metricThrottles(),
        threshold: 1,
        about: 'no concurrency is left',
        paragraph: 'no-concurrency-is-left',
      },
      {
        id: 'Ttft',
        metric: ttft.with({ statistic: 'p99' }),
        threshold: ttftP99Secs * 1000,
        about: 'first tokens are late',
        paragraph: 'first-tokens-are-late',
      },
      ...wanted.map((model, at) => ({
        id: at === 0 ? 'NoWorker' : `NoWorker${at}`,
        metric: http.metricOfRequests('Unserved', { statistic: 'Sum', dimensionsMap: { Model: model } }),
        threshold: 1,
        about: `the wanted model ${model} has no worker`,
        paragraph: 'a-wanted-model-has-no-worker',
      })),
      {
        id: 'Router',
        metric: fallbacks,
        threshold: FALLBACKS_MAX,
        about: 'the router is degraded or away',
        paragraph: 'the-router-is-away',
      },
      ...(edge === undefined ? [] : [tasksMissing(edge, settings.edges.container.tasks)]),
    ];
    for (const watch of watches) this.#watch(watch);
    new Dashboard(this, 'Dashboard', {
      widgets: [
        [
          graph('Requests', [api.metricRequests(), api.metricClientErrors(), api.metricServerErrors()]),
          graph('Time to first token, ms', [ttft.with({ statistic: 'p50' }), ttft.with({ statistic: 'p99' })]),
        ],
        [
          graph('Function', [http.metricErrors(), http.metricThrottles(), http.metricConcurrency()]),
          graph('Requests without a worker, or placed without the router', [unserved, fallbacks]),
        ],
        ...(edge === undefined
          ? []
          : [[graph('Edge, %', [edge.service.metricCpuUtilization(), edge.service.metricMemoryUtilization()])]]),
      ],
    });
  }

  #watch({ id, metric, threshold, about, paragraph, minutes = 3, comparison }: Watch): IAlarm {
    const alarm = new Alarm(this, `${id}Alarm`, {
      metric,
      threshold,
      alarmDescription: `Stator: ${about}. docs/operations.md#${paragraph}`,
      comparisonOperator: comparison ?? ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
      evaluationPeriods: 5,
      datapointsToAlarm: minutes,
      treatMissingData: TreatMissingData.NOT_BREACHING,
    });
    if (this.#topic !== undefined) alarm.addAlarmAction(this.#topic);
    return alarm;
  }
}

/** The edge has fewer tasks than it is to have: the function decides by itself while nobody answers. */
function tasksMissing(edge: EdgeService, tasks: number): Watch {
  const { cluster, serviceName } = edge.service;
  const metric = new Metric({
    namespace: 'ECS/ContainerInsights',
    metricName: 'RunningTaskCount',
    dimensionsMap: { ClusterName: cluster.clusterName, ServiceName: serviceName },
    period: Duration.minutes(1),
    statistic: 'Minimum',
  });
  return {
    id: 'RouterTasks',
    metric,
    threshold: tasks,
    about: 'edges are missing',
    paragraph: 'the-router-is-away',
    comparison: ComparisonOperator.LESS_THAN_THRESHOLD,
  };
}

function graph(title: string, left: Metric[]): GraphWidget {
  return new GraphWidget({ title, left, width: 12 });
}
