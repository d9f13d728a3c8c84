import type { TimeAndChance } from '../../clock/index.ts';
import type { EdgeSettings } from '../../config/index.ts';
import type { HeldReporter } from '../../planner/index.ts';
import { createHeldNoteMetrics, type Logger, type MetricRegistry } from '../../telemetry/index.ts';

interface ReportDeps extends TimeAndChance {
  readonly registry: MetricRegistry;
  readonly logger: Logger;
}

/**
 * Opens what notes the held requests in the table of the planner. Returns undefined if the settings name no table, and
 * loads its code only if they do.
 */
export async function openHeldReports(
  { plannerTable: tableName, dynamodbEndpoint: endpoint, awsRegion: region }: EdgeSettings,
  { clock, random, logger, registry }: ReportDeps,
): Promise<HeldReporter | undefined> {
  if (tableName === undefined) return undefined;
  const { DynamoDbHeldNotes, HeldReporter } = await import('../../planner/index.ts');
  return new HeldReporter({
    open: () => DynamoDbHeldNotes.open({ tableName, endpoint, region, clock, random }),
    holder: random.instanceId(),
    clock,
    logger,
    metrics: createHeldNoteMetrics(registry),
  });
}
