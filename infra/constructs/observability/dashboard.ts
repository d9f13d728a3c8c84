import { Dashboard, GraphWidget, type IMetric } from 'aws-cdk-lib/aws-cloudwatch';
import type { Construct } from 'constructs';
import { groupOf } from '../../../shared/protocol/index.ts';
import type { EdgeService } from '../edge-service.ts';
import { MINUTE } from '../metrics.ts';
import type { PublicFront } from '../public-front.ts';
import { balancerWatches } from './edge-watches.ts';
import { ageMetric, deadMetric, type WatchedPlanner } from './planner-watches.ts';

interface DashboardProps {
  readonly front: PublicFront;
  /** @default none: its task is another one's */
  readonly edge?: EdgeService;
  /** @default none: another planner scales the fleets, or there are none to scale */
  readonly planner?: WatchedPlanner | undefined;
  /** Rows about the machines of fleets on EC2. @default none */
  readonly machines?: readonly GraphWidget[][];
}

/** Adds the dashboard for the person who hears an alarm. */
export function addDashboard(scope: Construct, { front, edge, planner, machines = [] }: DashboardProps): void {
  const { api, function: http } = front;
  const ttft = http.metricOfRequests('TimeToFirstToken');
  const unserved = http.metricOfRequests('Unserved', { statistic: 'Sum' });
  const fallbacks = http.metricOfRequests('RouterFallbacks', { statistic: 'Sum' });
  const internal = http.metricOfRequests('InternalErrors', { statistic: 'Sum' });
  new Dashboard(scope, 'Dashboard', {
    widgets: [
      [
        graph('Requests', [api.metricRequests(), api.metricClientErrors(), api.metricServerErrors()]),
        graph('Time to first token, ms', [ttft.with({ statistic: 'p50' }), ttft.with({ statistic: 'p99' })]),
      ],
      [
        graph('Function', [http.metricErrors(), http.metricThrottles(), http.metricConcurrency()]),
        graph('Requests without a worker, without the router, with a fault of Stator', [unserved, fallbacks, internal]),
      ],
      ...(edge === undefined ? [] : edgeRows(edge)),
      ...(planner === undefined ? [] : plannerRows(planner)),
      ...machines,
    ],
  });
}

function edgeRows(edge: EdgeService): GraphWidget[][] {
  const { service, behind } = edge;
  const tasks = [
    graph('Edge, %', [service.metricCpuUtilization(), service.metricMemoryUtilization()]),
    graph('Age of the fleet view, s', [edge.metric('ViewAge', { statistic: 'Maximum' })]),
  ];
  if (behind === undefined) return [tasks];
  const ttft = edge.metric('TimeToFirstToken');
  const sum = { period: MINUTE, statistic: 'Sum' };
  const { serverErrors, own } = balancerWatches(behind);
  return [
    tasks,
    [
      graph('Requests at the edge', [behind.balancer.metrics.requestCount(sum), serverErrors.metric, own.metric]),
      graph('Time to first token at the edge, ms', [ttft.with({ statistic: 'p50' }), ttft.with({ statistic: 'p99' })]),
    ],
    [
      graph('Streams of a task', [
        edge.metric('ActiveStreams'),
        edge.metric('ActiveStreams', { statistic: 'Maximum' }),
      ]),
      graph('At the edge: without a worker, with a fault of Stator', [
        edge.metric('Unserved', { statistic: 'Sum' }),
        edge.metric('InternalErrors', { statistic: 'Sum' }),
      ]),
    ],
  ];
}

function plannerRows(planner: WatchedPlanner): GraphWidget[][] {
  const { function: runs, fleets } = planner;
  return [
    [
      graph('Planner', [runs.metricRuns(), runs.metricErrors(), runs.metricThrottles()]),
      graph('Oldest message to the planner, s; messages set aside', [ageMetric(planner), deadMetric(planner)]),
    ],
    [
      graph(
        'Decisions a minute',
        fleets.map((fleet) => runs.metricDecisions(groupOf(fleet))),
      ),
      graph('Decisions that are not carried out, or lack capacity', [
        runs.metricOfDecisions('UnappliedDecisions'),
        runs.metricOfDecisions('CapacityStalled'),
      ]),
    ],
  ];
}

function graph(title: string, left: IMetric[]): GraphWidget {
  return new GraphWidget({ title, left, width: 12 });
}
