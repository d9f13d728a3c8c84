import type * as z from 'zod';
import { EMBEDDED_MODELS_MAX } from '../../shared/telemetry/index.ts';

/** Values by which CloudWatch finds a metric. */
const LABEL = /^(?!:)[\x20-\x7e]*[\x21-\x7e][\x20-\x7e]*$/;

/** Models that alarms are made for. */
interface Watched {
  readonly models: Readonly<Record<string, { readonly wanted: boolean }>>;
}

/**
 * Refuses models whose workers no process reports to CloudWatch: their alarms would say for ever that there are none.
 */
export function checkWanted({ models }: Watched, context: z.RefinementCtx): void {
  const wanted = Object.entries(models).flatMap(([model, each]) => (each.wanted ? [model] : []));
  if (wanted.length > EMBEDDED_MODELS_MAX) {
    const message = `${wanted.length} have wanted: true, as all have that do not say otherwise: allowed are ${EMBEDDED_MODELS_MAX}`;
    context.addIssue({ code: 'custom', path: ['models'], message });
  }
  for (const model of wanted.filter((name) => !LABEL.test(name))) {
    const message = 'allowed is false: an alarm finds a model by a name in ASCII that does not begin with a colon';
    context.addIssue({ code: 'custom', path: ['models', model, 'wanted'], message });
  }
}
