import type { EdgeSettings } from '../../config/index.ts';
import { toWire } from '../../errors/index.ts';
import {
  type Bypass,
  conditionalBypass,
  type ExplanationSource,
  nextPrefillState,
  type PipelineObserver,
  type PrefillState,
  type RoutableModel,
  setsOf,
} from '../../pipeline/index.ts';
import { QUEUE_THRESHOLD, readConditionalDisaggregation } from '../../scheduler/index.ts';
import {
  createDisaggregationMetrics,
  type Logger,
  type MetricRegistry,
  type RouterMetrics,
} from '../../telemetry/index.ts';

/** Shows the state of prefill and decode workers in metrics and log. */
export interface Disaggregation {
  readonly observer: PipelineObserver;
  /** Takes the current models, without aliases. */
  follow(models: readonly RoutableModel[]): void;
}

export function observeDisaggregation(
  registry: MetricRegistry,
  { transferred }: Pick<RouterMetrics, 'transferred'>,
  logger: Logger,
): Disaggregation {
  const metrics = createDisaggregationMetrics(registry);
  const states = new Map<string, PrefillState>(); // bounded by the models in discovery
  return {
    observer: {
      kvTransferred: transferred,
      encodedInline: (model, failure) => {
        if (failure === undefined) return; // there is no encode worker
        const reason = toWire(failure).message;
        logger.warn('an encode worker failed: media are encoded where the prompt is computed', { model, reason });
      },
      decodedAlone: (model, failure) => {
        metrics.decodedAlone(model);
        if (failure === undefined) return; // there is no prefill worker: logged when the last one left
        logger.warn('a prefill failed: the decode worker computes the prompt', {
          model,
          reason: toWire(failure).message,
        });
      },
    },
    follow(models) {
      const present = new Set(models.map(({ name }) => name));
      for (const name of states.keys()) if (!present.has(name)) states.delete(name);
      for (const model of models) {
        const { name } = model;
        const sets = setsOf(model);
        const before = states.get(name) ?? 'pending';
        const state = nextPrefillState(
          before,
          sets.some(({ prefill }) => prefill !== undefined),
        );
        if (before === 'pending' && sets.every(({ pool }) => pool.role !== 'decode')) continue;
        states.set(name, state);
        metrics.setState(name, state);
        if (state === before) continue;
        const says = state === 'active' ? 'prefill workers are there' : 'no prefill worker is left';
        logger[state === 'active' ? 'info' : 'warn'](says, { model: name });
      }
    },
  };
}

/**
 * Returns the rule by which decode workers compute prompts themselves. Returns undefined if they never do, or if no
 * process knows what is cached.
 * @throws KvRouterConfigError for an invalid configuration
 */
export function openBypass(settings: EdgeSettings, source: ExplanationSource | undefined): Bypass | undefined {
  const { routerConditionalDisagg: isOn, routerConditionalDisaggConfig: config, routerQueueThreshold } = settings;
  if (!isOn) return undefined;
  const busyThreshold = routerQueueThreshold === 'auto' ? QUEUE_THRESHOLD : (routerQueueThreshold ?? undefined);
  const rule = readConditionalDisaggregation(config, busyThreshold);
  return source && conditionalBypass(rule, source);
}
