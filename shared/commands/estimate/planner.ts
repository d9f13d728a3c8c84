import { PLANNER_METRICS } from '../../telemetry/index.ts';
import { propertiesOf } from '../deploy-templates.ts';
import { HOURS, PRICES, type PricedPart, pricePart } from './prices.ts';

/** Ticks of a model: one a minute. */
const TICKS = HOURS * 60;
/**
 * Units of the planner's table, calls of the queue, and seconds of the function, of a tick that changes nothing. The
 * last decisions take most of the reads.
 */
const TICK = { writes: 4, reads: 14, queueCalls: 3, seconds: 0.3 } as const;
/** Memory of the planner's function. */
const GB = 0.5;
/** Memory of the planner's function times the seconds of one message. Its calls of AWS wait for most of that time. */
export const PLANNER_GB_SECONDS = GB * TICK.seconds;
/** Lambda asks a queue five times at once, and each question waits 20 s if there is nothing. */
const POLLS = 5 * 3 * TICKS;

/** Prices the planner of a deployment while its models rest; nothing without one. */
export function pricePlanner(templates: readonly unknown[]): readonly PricedPart[] {
  const models = propertiesOf(templates, 'AWS::Scheduler::Schedule').length;
  if (models === 0) return [];
  const queues = propertiesOf(templates, 'AWS::SQS::Queue').filter(({ RedrivePolicy }) => RedrivePolicy !== undefined);
  const own = Object.values(PLANNER_METRICS).filter(({ isGauge }) => !isGauge);
  const ofModels = own.filter(({ by }) => (by as readonly (readonly string[])[]).some((set) => set.length > 0)).length;
  return [
    pricePart('models that the planner looks at each minute', models, TICKS * tickDollars()),
    pricePart('queues that a function polls', queues.length, (POLLS * PRICES.queueMillion) / 1e6),
    pricePart('custom metrics of the planner', ofModels * models + own.length - ofModels, PRICES.metricMonth),
  ];
}

function tickDollars(): number {
  const millions =
    TICK.writes * PRICES.tableWriteMillion +
    TICK.reads * PRICES.tableReadMillion +
    TICK.queueCalls * PRICES.queueMillion +
    PRICES.requestMillion +
    PRICES.scheduleMillion;
  return millions / 1e6 + PLANNER_GB_SECONDS * PRICES.gbSecond;
}
