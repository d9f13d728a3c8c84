import * as z from 'zod';
import { invalidValue } from './field-checks.ts';
import type { JsonBody } from './json-body.ts';
import { requireShape } from './schema-errors.ts';

/** Body of `POST /busy_threshold`. Unknown keys are ignored. */
export const busyThresholdSchema = z.looseObject({
  model: z.string(),
  active_decode_blocks_threshold: z.number().nullish(),
  active_prefill_tokens_threshold: z.int().min(0).nullish(),
  active_prefill_tokens_threshold_frac: z.number().nullish(),
});

export type BusyThresholdBody = z.infer<typeof busyThresholdSchema>;

/** Checks the types of the body. @throws ServeError; see `requireShape`. */
export function parseBusyThresholdBody(body: JsonBody): BusyThresholdBody {
  return requireShape(busyThresholdSchema, body);
}

/** Checks the bounds of the body. @throws ServeError `invalid_value` */
export function checkBusyThresholdBody(body: BusyThresholdBody): void {
  const share = body.active_decode_blocks_threshold ?? 0;
  if (share < 0 || share > 1) {
    const param = 'active_decode_blocks_threshold';
    throw invalidValue(`${param} must be between 0.0 and 1.0, got ${share}`, param);
  }
  const fraction = body.active_prefill_tokens_threshold_frac ?? 0;
  if (fraction < 0) {
    const param = 'active_prefill_tokens_threshold_frac';
    throw invalidValue(`${param} must be a finite value greater than or equal to 0.0, got ${fraction}`, param);
  }
}
