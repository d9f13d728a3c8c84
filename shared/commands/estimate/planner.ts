import { PLANNER_METRICS, POD_METRICS } from '../../telemetry/index.ts';
import { fieldsOf, listOf } from '../aws-answers.ts';
import { propertiesOf, resourcesOf } from '../deploy-templates.ts';
import { HOURS, PRICES, type PricedPart, pricePart } from './prices.ts';

/** Ticks of a model: one a minute. */
const TICKS = HOURS * 60;
/**
 * Units of the planner's table, calls of the queue, and seconds of the function, of a tick that changes nothing. The
 * last decisions take most of the reads.
 */
const TICK = { writes: 4, reads: 14, queueCalls: 3, seconds: 0.3 } as const;
/** Seconds that the planner's function takes for one message. Its calls of AWS wait for most of that time. */
export const PLANNER_SECONDS = TICK.seconds;
/** Lambda asks a queue five times at once, and each question waits 20 s if there is nothing. */
const POLLS = 5 * 3 * TICKS;

/** Prices the planner of a deployment while its models rest; nothing without one. */
export function pricePlanner(templates: readonly unknown[]): readonly PricedPart[] {
  const models = propertiesOf(templates, 'AWS::Scheduler::Schedule').length;
  if (models === 0) return [];
  const queues = propertiesOf(templates, 'AWS::SQS::Queue').filter(({ RedrivePolicy }) => RedrivePolicy !== undefined);
  const hasPods = propertiesOf(templates, 'AWS::EKS::PodIdentityAssociation').length > 0;
  const all = [...Object.values(PLANNER_METRICS), ...(hasPods ? Object.values(POD_METRICS) : [])];
  const own = all.filter(({ isGauge }) => !isGauge);
  const ofModels = own.filter(({ by }) => (by as readonly (readonly string[])[]).some((set) => set.length > 0)).length;
  return [
    pricePart('models that the planner looks at each minute', models, TICKS * tickDollars(plannerGb(templates))),
    pricePart('queues that a function polls', queues.length, (POLLS * PRICES.queueMillion) / 1e6),
    pricePart('custom metrics of the planner', ofModels * models + own.length - ofModels, PRICES.metricMonth),
  ];
}

/** Returns the memory in GB of the planner's function, the one that takes messages of a queue; 0 without one. */
export function plannerGb(templates: readonly unknown[]): number {
  const resources = new Map(resourcesOf(templates));
  const planner = propertiesOf(templates, 'AWS::Lambda::EventSourceMapping').find(({ EventSourceArn }) => {
    const [source] = listOf(fieldsOf(EventSourceArn)['Fn::GetAtt']);
    return resources.get(String(source))?.Type === 'AWS::SQS::Queue';
  });
  const made = resources.get(String(fieldsOf(planner?.FunctionName).Ref));
  return Number(fieldsOf(made?.Properties).MemorySize ?? 0) / 1024;
}

function tickDollars(gb: number): number {
  const millions =
    TICK.writes * PRICES.tableWriteMillion +
    TICK.reads * PRICES.tableReadMillion +
    TICK.queueCalls * PRICES.queueMillion +
    PRICES.requestMillion +
    PRICES.scheduleMillion;
  return millions / 1e6 + gb * PLANNER_SECONDS * PRICES.gbSecond;
}
