import { ServeError, workerError } from '../../errors/index.ts';
import { type GenerationRequest, requestKeyOf } from '../../protocol/index.ts';
import type { LoadedModel } from '../../tokens/index.ts';
import type { Preprocessed } from '../prompt/preprocess.ts';
import type { BodyTerms } from './bodies/worker-bodies.ts';
import type { ChoiceRules } from './choice-text.ts';
import type { SplitPlan } from './text-split.ts';
import type { LogprobStyle } from './worker-output.ts';

/** Returns the terms for reading a worker's own bodies; undefined for requests whose answers have no choices. */
export function bodyTerms(request: GenerationRequest, maxTokens: number): BodyTerms | undefined {
  const { prompt, sampling, endpoint, id } = request;
  const isChat = prompt.kind === 'chat';
  if (!isChat && endpoint !== 'completions') return undefined;
  const key = requestKeyOf(id) ?? id.replaceAll(/[^a-z0-9]/gi, '');
  return {
    isChat,
    choicesMax: request.bodyChoicesMax ?? sampling.n ?? 1,
    maxTokens,
    toolNames: new Set(isChat ? prompt.tools?.map((tool) => tool.function.name) : []),
    // The parser of a text already limits it to one call.
    callsMax: isChat && prompt.parallelToolCalls === false ? 1 : Number.POSITIVE_INFINITY,
    idOf: (choice, index) => `call_${key}_${choice}_${index}`,
  };
}

/** Returns the rules by which the choices of a request end. */
export function rulesOf(request: GenerationRequest, prompt: Preprocessed, plan: SplitPlan | undefined): ChoiceRules {
  const { stop } = prompt.request;
  const hidden = new Set(stop.stop_token_ids_hidden);
  const visible = new Set(stop.stop_token_ids_visible);
  for (const id of plan?.visibleEndIds ?? []) if (hidden.delete(id)) visible.add(id);
  return {
    minTokens: stop.min_tokens ?? 0,
    maxTokens: stop.max_tokens ?? Number.POSITIVE_INFINITY,
    stopStrings: stop.stop ?? [],
    showsStopString: request.sampling.include_stop_str_in_output ?? false,
    hiddenIds: hidden,
    stopIds: new Set(stop.stop_token_ids),
    visibleIds: visible,
  };
}

/** Returns the form of log probabilities; undefined if the request asks for none, or the worker sends text. */
export function logprobStyle(
  request: GenerationRequest,
  loaded: LoadedModel | undefined,
  skipSpecialTokens: boolean,
): LogprobStyle | undefined {
  if (loaded === undefined || request.output.logprobs === undefined) return undefined;
  return {
    tokenizer: loaded.tokenizer,
    asIds: request.output.return_tokens_as_token_ids ?? false,
    skipSpecialTokens,
    alternatives: request.output.logprobs,
  };
}

/** Returns the failure of an answer with fewer choices than the request has; undefined if there are enough. */
export function missingChoices(given: number, asked: number): ServeError | undefined {
  if (given >= asked) return undefined;
  if (given === 0) return workerError('BackendProtocol', 'the worker answered without a choice');
  const says = `This model gives ${given} of the ${asked} choices asked for`;
  return new ServeError('unsupported_parameter', says, { param: 'n' });
}
