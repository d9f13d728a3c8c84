import { LIMITS, overLimit, ServeError } from '../../errors/index.ts';
import type { GenerationRequest, PromptInput } from '../generation/generation-request.ts';
import { DESERIALIZE_LEAD_IN, type JsonBody } from '../json/json-body.ts';
import type { CheckSettings } from './chat-checks.ts';
import { type CompletionsBody, completionsSchema } from './chat-schema.ts';
import { requireOneChoice } from './decode-chat.ts';
import type { DecodeContext } from './decode-context.ts';
import { decodeGuided } from './decode-guided.ts';
import { assembleRequest, decodeUsageReporting, promptOf, type UsageReporting } from './decode-request.ts';
import { effectiveNvext } from './decode-routing.ts';
import {
  checkModel,
  checkRange,
  checkSharedBounds,
  checkStreamOptions,
  invalidValue,
  refuseUnknownKeys,
  requireShape,
} from './field-checks.ts';
import { COMPLETIONS_KEYS, unknownKeys } from './root-keys.ts';
import { type Nvext, RANGES } from './shared-fields.ts';

const SUFFIX_CHARS_MAX = 10_000;

const EMBEDS_BYTES_MIN = 100;

const EMBEDS_BYTES_MAX = 10 * 1024 * 1024;

/** Completions request: one generation request for each prompt, all answered together. */
export interface DecodedCompletions extends UsageReporting {
  /** Id of the answer; a batch's requests are `<id>-<index>`. */
  readonly id: string;
  readonly requests: readonly GenerationRequest[];
  /** Choices per prompt: choice index = prompt index x n + choice of the prompt. */
  readonly choicesPerPrompt: number;
  /** Text before each prompt's choices; undefined without `echo`. */
  readonly echoes: readonly EchoedPrompt[] | undefined;
}

/** Prompt as it was given: text, or token ids. */
export type EchoedPrompt = string | readonly number[];

/** Checks the types of a completions body. @throws ServeError 400; see `requireShape`. */
export function parseCompletionsBody(body: JsonBody): CompletionsBody {
  return requireShape(completionsSchema, body);
}

/**
 * Decodes a completions body whose types are right into requests.
 * @throws ServeError `invalid_value`, `missing_required_parameter`, `unknown_parameter`, `unsupported_parameter`,
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
    maxTokens: body.max_tokens,
    guided: decodeGuided(body, nvext),
    logprobs: body.logprobs,
    promptLogprobs: body.prompt_logprobs ?? (echoes === undefined ? undefined : 1),
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
  return (prompt as readonly (string | readonly number[])[]).map(promptOf);
}

/** Returns the prompt that `echo` repeats. @throws ServeError `invalid_value` for embeddings, which have no text */
function echoOf(prompt: PromptInput): EchoedPrompt {
  if (prompt.kind === 'raw') return prompt.text;
  if (prompt.kind === 'tokens') return prompt.tokenIds;
  throw invalidValue('`echo` needs a prompt given as text or token ids', 'echo');
}

/** Splits a batch into one request for each prompt, with the body that asks for that prompt only. */
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

/**
 * Checks everything about a completions body that its types do not express.
 * @throws ServeError `invalid_value`, `missing_required_parameter`, `unknown_parameter`, `unsupported_parameter`.
 */
function checkCompletionsBody(body: CompletionsBody, settings: CheckSettings): void {
  checkStreamOptions(body);
  if (!settings.ignoresUnknownKeys) refuseUnknownKeys(unknownKeys(body, COMPLETIONS_KEYS), COMPLETIONS_KEYS);
  if (body.prompt_embeds != null) checkEmbeds(body.prompt_embeds);
  else checkPrompt(body.prompt);
  checkModel(body.model);
  checkSharedBounds(body, settings);
  checkSuffix(body.suffix);
  checkRange(body.logprobs, RANGES.logprobs, 'Logprobs', 'logprobs');
  checkBestOf(body);
  const choices = promptCount(body) * (body.n ?? 1);
  if (choices > LIMITS.choices.max) {
    const message = `The number of prompts times n must not exceed ${LIMITS.choices.max}, got ${choices}`;
    throw overLimit('choices', message, { param: 'n' });
  }
}

/** Counts the prompts of the batch; 1 unless `prompt` is an array of strings or of arrays. */
function promptCount(body: CompletionsBody): number {
  const { prompt } = body;
  if (body.prompt_embeds != null || !Array.isArray(prompt) || typeof prompt[0] === 'number') return 1;
  return prompt.length;
}

function checkPrompt(prompt: CompletionsBody['prompt']): void {
  if (prompt === undefined) {
    throw new ServeError('missing_required_parameter', `${DESERIALIZE_LEAD_IN}missing field \`prompt\``, {
      param: 'prompt',
    });
  }
  if (prompt === '') throw invalidValue('Prompt string cannot be empty', 'prompt');
  if (typeof prompt === 'string') return;
  if (prompt.length === 0) throw invalidValue('Prompt string array cannot be empty', 'prompt');
  for (let at = 0; at < prompt.length; at++) {
    const item = prompt[at]!;
    if (typeof item === 'number') return;
    if (item.length > 0) continue;
    const kind = typeof item === 'string' ? 'string' : 'integer array';
    throw invalidValue(`Prompt ${kind} at index ${at} cannot be empty`, `prompt[${at}]`);
  }
}

function checkEmbeds(data: string): void {
  if (data.length % 4 !== 0) throw notBase64();
  const sizeBytes = Buffer.byteLength(data, 'base64'); // size by the text's length, a bound for the decoding below
  if (sizeBytes < EMBEDS_BYTES_MIN || sizeBytes > EMBEDS_BYTES_MAX) {
    throw invalidValue(
      `prompt_embeds must decode to between ${EMBEDS_BYTES_MIN} and ${EMBEDS_BYTES_MAX} bytes, got ${sizeBytes}`,
      'prompt_embeds',
    );
  }
  // Encoding it again checks the text; a pattern over megabytes would overflow its stack.
  if (Buffer.from(data, 'base64').toString('base64') !== data) throw notBase64();
}

function notBase64(): ServeError {
  return invalidValue('prompt_embeds must be valid base64-encoded data', 'prompt_embeds');
}

/**
 * Checks the suffix. An empty one changes nothing; any other would change the answer, and no engine here fills in the
 * middle.
 */
function checkSuffix(suffix: string | null | undefined): void {
  if (suffix == null || suffix === '') return;
  if (suffix.length > SUFFIX_CHARS_MAX) {
    throw invalidValue(`Suffix must not exceed ${SUFFIX_CHARS_MAX} characters, got ${suffix.length}`, 'suffix');
  }
  throw new ServeError('unsupported_parameter', '`suffix` is not supported', { param: 'suffix' });
}

function checkBestOf(body: CompletionsBody): void {
  checkRange(body.best_of, RANGES.best_of, 'best_of', 'best_of');
  const n = body.n ?? 1;
  if (body.best_of != null && body.best_of < n) {
    throw invalidValue(`best_of must be greater than or equal to n, got best_of=${body.best_of}, n=${n}`, 'best_of');
  }
}
