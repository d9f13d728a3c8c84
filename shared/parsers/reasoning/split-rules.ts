import type { AnswerConstraint } from './guided-start.ts';

/** Parts of a request that decide whether its text is split. */
export interface ReasoningRequest {
  /** `chat_template_args`, extended by `thinking` and `reasoning_effort`. */
  readonly templateArgs?: Readonly<Record<string, unknown>> | undefined;
  /** Role of the last message. */
  readonly lastRole?: string | undefined;
  /**
   * Whether `tool_choice` is `required` or names a function: then the engine writes bare JSON from its first token on.
   */
  readonly forcesTool?: boolean | undefined;
  /** Rendered prompt, or its last 200 characters. */
  readonly promptText: string;
  /** Markers of tool calls that this model writes for nothing else; they end reasoning. @default none */
  readonly callTokens?: readonly string[] | undefined;
  /**
   * Constraint of the answer in the engine. Some engines apply it from the first token on, some after the reasoning.
   */
  readonly constraint?: AnswerConstraint | undefined;
}

/** Mode of splitting. `strip-opener`: everything except a leading opener is content. */
type SplitMode = 'split' | 'skip' | 'strip-opener';
/** Decides the mode by the format's own conditions. */
export type SplitRule = (request: ReasoningRequest) => SplitMode;

/** Length of the prompt's end that is checked; longer than any opener or closer with white space around its parts. */
export const PROMPT_TAIL_UNITS = 200;

type TemplateArgs = Readonly<Record<string, unknown>>;

const argsOf = (request: ReasoningRequest): TemplateArgs => request.templateArgs ?? {};

/** Returns the boolean `thinking` or `enable_thinking`; undefined when neither is a boolean. */
function thinkingFlag(args: TemplateArgs): boolean | undefined {
  if (typeof args.thinking === 'boolean') return args.thinking;
  return typeof args.enable_thinking === 'boolean' ? args.enable_thinking : undefined;
}

/**
 * Returns whether the request sets a reasoning effort. An effort of `none` asks for no reasoning, so it does not count.
 */
function hasEffort(args: TemplateArgs): boolean {
  return args.reasoning_effort !== undefined && args.reasoning_effort !== null && args.reasoning_effort !== 'none';
}

/** Returns whether the request asks its template for an answer without reasoning. */
export function isSwitchedOff(request: ReasoningRequest): boolean {
  const args = argsOf(request);
  return thinkingFlag(args) === false || args.thinking_mode === 'chat' || args.thinking_mode === 'disabled';
}

export const splitUnlessSwitchedOff: SplitRule = (request) => (isSwitchedOff(request) ? 'skip' : 'split');

export const splitWhenThinking: SplitRule = (request) => (thinkingFlag(argsOf(request)) === true ? 'split' : 'skip');

export const splitWhenEffort: SplitRule = (request) => (hasEffort(argsOf(request)) ? 'split' : 'skip');

export const splitWhenThinkingOrEffort: SplitRule = (request) =>
  splitWhenThinking(request) === 'split' ? 'split' : splitWhenEffort(request);

export const splitAsKimi: SplitRule = (request) =>
  argsOf(request).thinking === false || request.lastRole === 'tool' ? 'skip' : 'split';

export const splitAsNemotron: SplitRule = (request) => {
  const args = argsOf(request);
  return args.enable_thinking === false || args.force_nonempty_content === true ? 'strip-opener' : 'split';
};
