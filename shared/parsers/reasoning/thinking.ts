/** What of a request decides whether its text is split. */
export interface ReasoningRequest {
  /** `chat_template_args` with what `thinking` and `reasoning_effort` add to them. */
  readonly templateArgs?: Readonly<Record<string, unknown>> | undefined;
  /** Role of the last message. */
  readonly lastRole?: string | undefined;
  /** `tool_choice` is `required` or names a function: the engine writes bare JSON from its first token on. */
  readonly forcesTool?: boolean | undefined;
  /** The rendered prompt, or its last 200 characters. */
  readonly promptText: string;
}

/** `strip-opener`: everything is content but a leading opener. */
export type SplitMode = 'split' | 'skip' | 'strip-opener';
/** A format's own conditions. */
export type SplitRule = (request: ReasoningRequest) => SplitMode;

type TemplateArgs = Readonly<Record<string, unknown>>;

const argsOf = (request: ReasoningRequest): TemplateArgs => request.templateArgs ?? {};

/** The boolean `thinking` or `enable_thinking`; undefined when neither is one. */
function thinkingFlag(args: TemplateArgs): boolean | undefined {
  if (typeof args.thinking === 'boolean') return args.thinking;
  return typeof args.enable_thinking === 'boolean' ? args.enable_thinking : undefined;
}

/** An effort of `none` asks for no reasoning, so it does not count as one. */
function hasEffort(args: TemplateArgs): boolean {
  return args.reasoning_effort !== undefined && args.reasoning_effort !== null && args.reasoning_effort !== 'none';
}

export const splitUnlessSwitchedOff: SplitRule = (request) => {
  const args = argsOf(request);
  return thinkingFlag(args) === false || args.thinking_mode === 'chat' ? 'skip' : 'split';
};

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
