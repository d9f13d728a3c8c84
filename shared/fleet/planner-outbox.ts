import type { Clock } from '../clock/index.ts';
import { PlannerOutbox, SqsPlannerQueue } from '../planes/index.ts';
import { createPlannerQueueMetrics, type Logger, type MetricRegistry } from '../telemetry/index.ts';

interface QueueSettings {
  readonly plannerQueueUrl?: string | undefined;
  readonly sqsEndpoint?: string | undefined;
  readonly awsRegion?: string | undefined;
}

interface OutboxDeps {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly registry: MetricRegistry;
}

/**
 * Opens the outbox that sends events to the planner's queue. Returns undefined if the settings name no queue. It
 * connects when there is an event.
 */
export async function openPlannerOutbox(
  { plannerQueueUrl: queueUrl, sqsEndpoint: endpoint, awsRegion: region }: QueueSettings,
  { clock, logger, registry }: OutboxDeps,
): Promise<PlannerOutbox | undefined> {
  if (queueUrl === undefined) return undefined;
  // The outbox itself tries again, with the newest events at that time.
  const queue = await SqsPlannerQueue.open({ queueUrl, endpoint, region, clock, operationTimeoutMs: 1000 });
  return new PlannerOutbox({ queue, clock, logger, metrics: createPlannerQueueMetrics(registry) });
}
