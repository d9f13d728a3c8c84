import type { Clock } from '../clock/index.ts';
import { PlannerOutbox, SqsPlannerQueue } from '../planes/index.ts';
import { createPlannerQueueMetrics, type Logger, type MetricRegistry } from '../telemetry/index.ts';

interface QueueSettings {
  readonly plannerQueueUrl?: string | undefined;
  readonly sqsEndpoint?: string | undefined;
  readonly awsRegion?: string | undefined;
}

interface OutboxParts {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly registry: MetricRegistry;
}

/** What sends events to the planner's queue; undefined where the settings name none. Nothing is sent before there is an event. */
export async function openPlannerOutbox(
  { plannerQueueUrl: queueUrl, sqsEndpoint: endpoint, awsRegion: region }: QueueSettings,
  { clock, logger, registry }: OutboxParts,
): Promise<PlannerOutbox | undefined> {
  if (queueUrl === undefined) return undefined;
  // The outbox tries again by itself, with what is newest by then.
  const queue = await SqsPlannerQueue.open({ queueUrl, endpoint, region, clock, operationTimeoutMs: 1000 });
  return new PlannerOutbox({ queue, clock, logger, metrics: createPlannerQueueMetrics(registry) });
}
