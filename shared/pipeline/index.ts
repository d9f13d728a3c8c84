/**
 * @module pipeline
 * One request's life: resolve the model, render, tokenize, route, dispatch, detokenize, stop, count.
 */
export type {
  GenerateOptions,
  ModelDirectory,
  ModelReadiness,
  NamespaceReadiness,
  Pipeline,
  ServedModel,
} from './types.ts';
