import type { Clock } from '../../clock/index.ts';
import { Lifetime } from '../../concurrency/index.ts';
import { ConfigError, type Settings } from '../../config/index.ts';
import { SqsPlannerQueue } from '../../planes/index.ts';
import { DynamoDbHeldNotes, HeldWaker } from '../../planner/index.ts';
import type { ProcessLogger } from '../../telemetry/index.ts';

interface HeldWakerDeps {
  readonly settings: Settings<'planner'>;
  readonly logger: ProcessLogger;
  readonly clock: Clock;
  /** Called with each sum that the queue has taken. */
  onTold(model: string, count: number): void;
}

/** Longest time of one call, repetitions and all. A stream hands out again what was not told. */
const CALL_MS_MAX = 3000;

/** Opens what tells a planner of held requests. It stays open as long as the environment of the function. */
export function openHeldWaker({ settings, logger, clock, onTold }: HeldWakerDeps): Promise<HeldWaker> {
  const { plannerTable: tableName, plannerQueueUrl: queueUrl, awsRegion: region } = settings;
  if (tableName === undefined)
    throw new ConfigError(['STATOR_PLANNER_TABLE is missing: it names the table of the notes']);
  if (queueUrl === undefined)
    throw new ConfigError(['STATOR_PLANNER_QUEUE_URL is missing: it names the queue of the planner']);
  return Lifetime.compose(async (lifetime) => {
    const common = { region, clock, operationTimeoutMs: CALL_MS_MAX };
    const table = { ...common, tableName, endpoint: settings.dynamodbEndpoint };
    const notes = await lifetime.use(DynamoDbHeldNotes.open(table));
    const queue = await lifetime.use(SqsPlannerQueue.open({ ...common, queueUrl, endpoint: settings.sqsEndpoint }));
    return new HeldWaker({ notes, queue, clock, logger: logger.for('planner'), onTold });
  });
}
