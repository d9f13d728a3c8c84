import type { IAlarm } from 'aws-cdk-lib/aws-cloudwatch';
import { Construct } from 'constructs';
import { reservedConcurrency, type Settings } from '../../settings/index.ts';
import type { EdgeService } from '../edge-service.ts';
import type { NatsService } from '../nats-service.ts';
import type { PublicFront } from '../public-front.ts';
import { Alarms } from './alarms.ts';
import { addDashboard } from './dashboard.ts';
import { balancerWatches, edgeClientWatches, edgeWatches, natsWatches, noWorkerWatches } from './edge-watches.ts';
import {
  apiWatch,
  certificateWatch,
  functionLimitWatches,
  functionWatches,
  releaseWatches,
  ttftWatch,
} from './front-watches.ts';
import { machineRows } from './machine-rows.ts';
import type { WatchedPlanner } from './planner-watches.ts';

interface ObservabilityProps {
  readonly front: PublicFront;
  readonly settings: Settings;
  /** `STATOR_EMF_SERVICE` of the tasks that know the workers. */
  readonly service: string;
}

/**
 * A dashboard and the alarms of a deployment for looking at. Each alarm names the paragraph of docs/operations.md that
 * says what to do.
 */
export class Observability extends Construct {
  constructor(scope: Construct, id: string, { front, settings, service }: ObservabilityProps) {
    super(scope, id);
    const alarms = new Alarms(this, settings.alarms);
    addShared(alarms, { front, settings, service });
    addDashboard(this, { front });
  }
}

interface ProductionObservabilityProps extends Omit<ObservabilityProps, 'service'> {
  readonly edge: EdgeService;
  readonly nats: NatsService;
  /** @default none: another planner scales the fleets, or there are none to scale */
  readonly planner?: WatchedPlanner | undefined;
}

/**
 * The same of a deployment that clients depend on: its releases, its limits, its container edge and NATS, and one alarm
 * to be woken by.
 */
export class ProductionObservability extends Construct {
  /** Alarms that stop a release and bring the previous one back. */
  readonly releaseAlarms: readonly IAlarm[];

  constructor(scope: Construct, id: string, props: ProductionObservabilityProps) {
    super(scope, id);
    const { front, edge, nats, planner, settings } = props;
    const { alarms: asked, domain, edges } = settings;
    const alarms = new Alarms(this, asked);
    this.releaseAlarms = releaseWatches(front).map((watch) => alarms.add(watch));
    const felt = [...addShared(alarms, { front, settings, service: edge.emfService })];
    const { container } = edges;
    const others = [
      ...functionLimitWatches(front, reservedConcurrency(settings)),
      ...edgeWatches(edge, container.tasks),
      ...natsWatches(nats),
      ...(domain === undefined ? [] : [certificateWatch(domain.certificateArn)]),
    ];
    for (const watch of others) alarms.add(watch);
    if (edge.behind !== undefined) {
      const { internal, ttft } = edgeClientWatches(edge, asked);
      const balancer = balancerWatches(edge.behind);
      felt.push(...[balancer.serverErrors, balancer.own, ttft].map((watch) => alarms.add(watch)));
      for (const watch of [internal, ...balancer.others]) alarms.add(watch);
    }
    alarms.page('Customer-Impact', felt, 'customers are affected', 'customers-are-affected');
    addDashboard(this, { front, edge, planner, machines: machineRows(settings) });
  }
}

/** Adds the alarms of every stage, and returns those whose causes clients notice. */
function addShared(alarms: Alarms, { front, settings, service }: ObservabilityProps): readonly IAlarm[] {
  for (const watch of functionWatches(front)) alarms.add(watch);
  return [apiWatch(front), ttftWatch(front, settings.alarms), ...noWorkerWatches(service, settings.models)].map(
    (watch) => alarms.add(watch),
  );
}
