import type { GenerationRequest, PromptInput } from '../generation/index.ts';
import { checkCompletionsBody, promptCount } from './completions-checks.ts';
import { type CompletionsBody, completionsSchema } from './completions-schema.ts';
import { requireOneChoice } from './decode-chat.ts';
import type { DecodeContext } from './decode-context.ts';
import { decodeGuided } from './decode-guided.ts';
import { decodeOutput, decodeSampling, decodeStop } from './decode-options.ts';
import { assembleRequest, decodeUsageReporting, type UsageReporting } from './decode-request.ts';
import { decodeRouting, effectiveNvext } from './decode-routing.ts';
import { invalidValue } from './field-checks.ts';
import type { JsonBody } from './json-body.ts';
import type { Nvext } from './nvext-schema.ts';
import { requireShape } from './schema-errors.ts';

/** A completions request: one generation request a prompt, all answered as one. */
export interface DecodedCompletions extends UsageReporting {
  /** Id of the answer; a batch's requests are `<id>-<index>`. */
  readonly id: string;
  readonly requests: readonly GenerationRequest[];
  /** Choices per prompt: choice index = prompt index x n + choice of the prompt. */
  readonly choicesPerPrompt: number;
  /** What to show in front of each prompt's choices; `undefined` without `echo`. */
  readonly echoes: readonly EchoedPrompt[] | undefined;
}

/** A prompt as it was given: text, or token ids. */
export type EchoedPrompt = string | readonly number[];

/** Checks the types of a completions body. @throws ServeError 400; see `requireShape`. */
export function parseCompletionsBody(body: JsonBody): CompletionsBody {
  return requireShape(completionsSchema, body);
}

/**
 * Turns a completions body whose types are right into requests.
 * @throws ServeError `invalid_value`, `missing_required_parameter`, `unknown_parameter`, `not_implemented`,
 * `headers_too_large`.
 */
export function decodeCompletions(body: CompletionsBody, context: DecodeContext): DecodedCompletions {
  checkCompletionsBody(body, context.settings);
  const nvext = effectiveNvext(body.nvext, context);
  requireOneChoice(body, nvext, promptCount(body));
  const prompts = decodePrompts(body, nvext);
  const echoes = body.echo === true ? prompts.map(echoOf) : undefined;
  const request = assembleRequest({
    body,
    nvext,
    context,
    endpoint: 'completions',
    prompt: prompts[0]!, // checkCompletionsBody refuses empty batches
    choices: prompts.length * (body.n ?? 1),
    options: {
      stop: decodeStop(body, nvext, body.max_tokens),
      sampling: decodeSampling(body, nvext, decodeGuided(body, nvext)),
      output: decodeOutput(body, body.logprobs, body.prompt_logprobs ?? (echoes === undefined ? undefined : 1)),
      routing: decodeRouting(nvext, body.cache_salt, context),
    },
  });
  if (body.best_of != null) request.sampling = { ...request.sampling, best_of: body.best_of };
  return {
    id: request.id,
    requests: batchOf(request, body, prompts),
    choicesPerPrompt: body.n ?? 1,
    echoes,
    ...decodeUsageReporting(body, context.settings.forcesUsage),
  };
}

function decodePrompts(body: CompletionsBody, nvext: Nvext): readonly PromptInput[] {
  if (body.prompt_embeds != null) return [{ kind: 'embeds', data: body.prompt_embeds }];
  if (nvext.token_data != null) return [{ kind: 'tokens', tokenIds: nvext.token_data }];
  const { prompt } = body;
  if (typeof prompt === 'string') return [{ kind: 'raw', text: prompt }];
  if (typeof prompt?.[0] === 'number') return [{ kind: 'tokens', tokenIds: prompt as readonly number[] }];
  return (prompt as readonly (string | readonly number[])[]).map((item) =>
    typeof item === 'string' ? { kind: 'raw', text: item } : { kind: 'tokens', tokenIds: item },
  );
}

/** What `echo` repeats. @throws ServeError `invalid_value` for embeddings, which no text stands behind */
function echoOf(prompt: PromptInput): EchoedPrompt {
  if (prompt.kind === 'raw') return prompt.text;
  if (prompt.kind === 'tokens') return prompt.tokenIds;
  throw invalidValue('`echo` needs a prompt given as text or token ids', 'echo');
}

/** Every prompt as its own request, whose body is the one that would have asked for that prompt alone. */
function batchOf(request: GenerationRequest, body: CompletionsBody, prompts: readonly PromptInput[]) {
  if (prompts.length === 1) return [request];
  const { prompt: given } = body;
  return prompts.map((prompt, index) => ({
    ...request,
    prompt,
    id: `${request.id}-${index}`,
    body: { ...body, prompt: given?.[index] },
  }));
}
