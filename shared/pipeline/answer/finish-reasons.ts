import { fromWire, type ServeError, workerError } from '../../errors/index.ts';
import type { EngineOutput, FinishReason } from '../../protocol/generation/index.ts';

/** What a worker's word for the end of a choice is told as. `tool_calls` is ours to find out from the text. */
const TOLD: ReadonlyMap<string, FinishReason> = new Map([
  ['eos', 'stop'],
  ['stop', 'stop'],
  ['tool_calls', 'stop'],
  ['cancelled', 'stop'],
  ['abort', 'stop'],
  ['length', 'length'],
  ['content_filter', 'content_filter'],
]);

/** The reason that the client reads for one that `failureInFinish` let pass. */
export function toldReason(reason: EngineOutput['finish_reason']): FinishReason {
  return (typeof reason === 'string' ? TOLD.get(reason) : undefined) ?? 'stop';
}

/** The failure that a finish reason reports: told in words, named `error`, or a word that nobody knows. */
export function failureInFinish(reason: EngineOutput['finish_reason']): ServeError | undefined {
  if (reason === undefined || reason === null) return undefined;
  if (typeof reason === 'object') return fromWire({ kind: 'Internal', message: reason.error });
  if (TOLD.has(reason)) return undefined;
  return workerError('Internal', `the worker ended a choice with the finish reason ${JSON.stringify(reason)}`);
}

/** The failure that a body in OpenAI's own shape reports as finish reason. Other words are its author's and pass untouched. */
export function failureInBody(body: unknown): ServeError | undefined {
  const choices = (body as { readonly choices?: unknown } | null | undefined)?.choices;
  if (!Array.isArray(choices)) return undefined;
  const hasFailed = choices.some((choice) => choice?.finish_reason === 'error');
  return hasFailed ? workerError('Internal', 'the worker ended a choice with the finish reason "error"') : undefined;
}
