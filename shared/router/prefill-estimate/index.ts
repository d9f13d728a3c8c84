/**
 * @module router/prefill-estimate
 * The built-in `PrefillDurationModel`: how long a prompt takes to prefill, estimated from a model's config.json and the
 * published peaks of a GPU.
 */
export { createPrefillEstimate, type PrefillEstimateOptions } from './estimate-prefill.ts';
export { type ModelShape, readModelShape } from './model-shape.ts';
