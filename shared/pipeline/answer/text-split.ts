import type { Random } from '../../clock/index.ts';
import type { ModelCard } from '../../discovery/index.ts';
import { ServeError } from '../../errors/index.ts';
import {
  type AnswerConstraint,
  createReasoningParser,
  createToolCallParser,
  describeToolCallParser,
  findReasoningFormat,
  needsSpecialTokens,
  planReasoning,
  type ReasoningParser,
  type ReasoningPlan,
  type ReasoningSink,
  type ToolCallOptions,
  type ToolCallParser,
  type ToolCallSink,
} from '../../parsers/index.ts';
import type { FinishReason, GenerationRequest, GenerationSink, GuidedDecoding } from '../../protocol/index.ts';
import type { Tokenizer } from '../../tokens/index.ts';

/** How the text of one request becomes reasoning, content and tool calls; the same for all its choices. */
export interface SplitPlan {
  readonly reasoning: ReasoningPlan | undefined;
  /** The model's tool-call parser and the request's tools; undefined if the text cannot have tool calls. */
  readonly tools: { readonly parser: string | undefined; readonly options: ToolCallOptions } | undefined;
  /** Whether markers are special tokens, which the text then keeps unless the client has asked to skip them. */
  readonly keepsSpecialTokens: boolean;
  /** Ids of end tokens that belong to a tool call's markup, so that its parser needs their text. */
  readonly visibleEndIds: readonly number[];
}

interface PlanInput {
  readonly request: GenerationRequest;
  readonly card: ModelCard;
  readonly tokenizer: Tokenizer | undefined;
  readonly formattedPrompt: string | undefined;
  readonly random: Random;
}

/**
 * Returns the plan of a chat; undefined if all its text is content.
 * @throws ServeError `not_implemented` if the model was registered with a parser that this server does not have
 */
export function planSplit(input: PlanInput): SplitPlan | undefined {
  const { prompt } = input.request;
  if (prompt.kind !== 'chat') return undefined;
  const tools = toolPlan(input);
  const description = tools?.parser === undefined ? undefined : describeToolCallParser(tools.parser);
  const built = description?.kind === 'built' ? description : undefined;
  const reasoning = reasoningPlan(input, built?.callTokens ?? []);
  if (reasoning === undefined && tools === undefined) return undefined;
  const { tokenizer } = input;
  const isSpecial = (text: string): boolean => {
    const id = tokenizer?.tokenToId(text);
    return id !== undefined && tokenizer?.isSpecial(id) === true;
  };
  return {
    reasoning,
    tools,
    keepsSpecialTokens:
      built?.keepsSpecialTokens === true ||
      built?.callTokens.some(isSpecial) === true ||
      (reasoning !== undefined && needsSpecialTokens(reasoning.format, isSpecial)),
    visibleEndIds: (built?.endTokens ?? []).flatMap((text) => tokenizer?.tokenToId(text) ?? []),
  };
}

function reasoningPlan(
  { request, card, tokenizer, formattedPrompt }: PlanInput,
  callTokens: readonly string[],
): ReasoningPlan | undefined {
  const name = card.runtime_config.reasoning_parser;
  const { prompt } = request;
  if (name === undefined || name === '' || prompt.kind !== 'chat' || request.reasoning?.separate === false)
    return undefined;
  const found = findReasoningFormat(name);
  const isToken = (text: string): boolean => tokenizer?.tokenToId(text) !== undefined;
  // A tokenizer of this family that has no token for a call's marker belongs to a model whose text may mention the
  // marker.
  const isOfFamily = found.format.markers.some(isToken);
  const toolChoice = prompt.toolChoice ?? 'auto';
  return planReasoning(found.format, {
    templateArgs: prompt.templateArgs,
    lastRole: prompt.messages.at(-1)?.role,
    forcesTool: toolChoice === 'required' || typeof toolChoice === 'object',
    promptText: formattedPrompt ?? '',
    callTokens: isOfFamily ? callTokens.filter(isToken) : callTokens,
    constraint: constraintOf(request.sampling.guided_decoding),
  });
}

function constraintOf(guided: GuidedDecoding | undefined): AnswerConstraint | undefined {
  if (guided?.json !== undefined) return { kind: 'json' };
  if (guided?.choice !== undefined) return { kind: 'choice', choices: guided.choice };
  return guided?.regex !== undefined || guided?.grammar !== undefined ? { kind: 'text' } : undefined;
}

function toolPlan({ request, card, random }: PlanInput): SplitPlan['tools'] {
  const { prompt } = request;
  if (prompt.kind !== 'chat' || prompt.tools === undefined || prompt.tools.length === 0) return undefined;
  const { tools, toolChoice, parallelToolCalls } = prompt;
  const parser = card.runtime_config.tool_call_parser || undefined;
  if (toolChoice === 'none' || (parser === undefined && (toolChoice ?? 'auto') === 'auto')) return undefined;
  const description = parser === undefined ? undefined : describeToolCallParser(parser);
  if (description?.kind === 'refused') throw unservable(description.message);
  const options: ToolCallOptions = {
    tools,
    random,
    ...(toolChoice === undefined ? {} : { toolChoice }),
    ...(parallelToolCalls === undefined ? {} : { parallelToolCalls }),
  };
  return { parser, options };
}

function unservable(reason: string): ServeError {
  return new ServeError('not_implemented', `The model cannot serve this request: ${reason}`);
}

/**
 * Passes the text of one choice through the parsers: reasoning first, then tool calls in the rest. Events go to the
 * sink in the order of the text. Content goes back to the caller, which knows what else belongs to the same frame.
 */
export class TextSplit implements ToolCallSink {
  readonly #choice: number;
  readonly #sink: GenerationSink;
  readonly #reasoning: ReasoningParser | undefined;
  readonly #tools: ToolCallParser | undefined;
  #content = '';
  #isReasoning = false;

  constructor(choice: number, plan: SplitPlan, sink: GenerationSink) {
    this.#choice = choice;
    this.#sink = sink;
    this.#reasoning = plan.reasoning === undefined ? undefined : createReasoningParser(plan.reasoning);
    this.#tools = plan.tools === undefined ? undefined : createToolCallParser(plan.tools.parser, plan.tools.options);
  }

  /** Whether the last `push` brought reasoning. */
  get isReasoning(): boolean {
    return this.#isReasoning;
  }

  /** Takes the next piece of text; returns the content that may be shown now. */
  push(text: string): string {
    this.#isReasoning = false;
    if (this.#reasoning === undefined) this.#toTools(text);
    else this.#reasoning.push(text, this.#fromReasoning);
    return this.#takeContent();
  }

  /** Ends the text. Returns the content that was held back, and the finish reason for the client. */
  end(reason: FinishReason | null): { readonly text: string; readonly reason: FinishReason | null } {
    this.#reasoning?.end(this.#fromReasoning);
    const shown = this.#tools === undefined ? reason : this.#tools.end(reason, this);
    return { text: this.#takeContent(), reason: shown };
  }

  content(text: string): void {
    this.#content += text;
  }

  callStart(index: number, id: string, name: string): void {
    this.#flushContent();
    this.#sink.toolCall(this.#choice, index, id, name);
  }

  callArguments(index: number, fragment: string): void {
    this.#flushContent();
    this.#sink.toolArguments(this.#choice, index, fragment);
  }

  /** Sink of the reasoning parser. The content that it finds goes on to the tool-call parser. */
  readonly #fromReasoning: ReasoningSink = {
    reasoning: (text) => {
      this.#isReasoning = true;
      this.#flushContent();
      this.#sink.reasoning(this.#choice, text);
    },
    content: (text) => this.#toTools(text),
  };

  #toTools(text: string): void {
    if (this.#tools === undefined) this.#content += text;
    else this.#tools.push(text, this);
  }

  /** Sends the content that precedes an event, before that event. */
  #flushContent(): void {
    if (this.#content === '') return;
    this.#sink.text(this.#choice, this.#takeContent(), 0);
  }

  #takeContent(): string {
    const content = this.#content;
    this.#content = '';
    return content;
  }
}
