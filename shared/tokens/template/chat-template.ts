import { ServeError } from '../../errors/index.ts';
import type { UnknownRecord } from '../../records/index.ts';
import { readSpecialTokens, type SpecialTokens } from '../model-info.ts';
import type { ChatTemplate, ChatTemplateInput } from '../types.ts';
import { TemplateBudgetError, withinBudget } from './budget.ts';
import { normalizeMessages, normalizeTools, type TemplateShape } from './normalize-messages.ts';
import { hasHistory, plainHistory } from './plain-history.ts';
import { cutAfterPrefill } from './prefill.ts';
import { probeTemplate } from './probe.ts';
import { compileNodes, type TemplateProgram } from './program.ts';
import { type Node, parseTemplate, TemplateRuntimeError } from './syntax.ts';

/** Template text, or one text for conversations with tools and one for those without. */
export type ChatTemplateSource = string | { readonly default: string; readonly toolUse: string };

/** Called once, if a rendering exceeds what its small input can justify. The template renders nothing from then on. */
type OnHopeless = (reason: string) => void;

/**
 * Compiles a chat template and finds out what it accepts; rendering then takes a few microseconds.
 * @throws TemplateSyntaxError naming a construct, filter or test that is not supported
 * @throws TemplateBudgetError when small conversations exceed the budget of a template
 */
export function compileChatTemplate(
  source: ChatTemplateSource,
  tokens = readSpecialTokens({}),
  onHopeless: OnHopeless = () => undefined,
): ChatTemplate {
  const compile = (text: string): Variant => {
    const steps = compileInSteps(text, parseTemplate(text), tokens);
    for (let step = steps.next(); ; step = steps.next()) if (step.done) return step.value;
  };
  const texts = textsOf(source);
  const withoutTools = compile(texts.default);
  const withTools = texts.toolUse === texts.default ? withoutTools : compile(texts.toolUse);
  return createChatTemplate({ withoutTools, withTools, tokens, onHopeless });
}

/** Callbacks by which a process compiles a template while it serves. */
export interface TemplateCompilation {
  /** Parses a template without blocking this thread. @throws TemplateSyntaxError */
  readonly parse: (source: string) => Promise<readonly Node[]>;
  /** Ends a turn of the event loop. */
  readonly pause: () => Promise<unknown>;
  readonly onHopeless: OnHopeless;
}

/** Compiles as `compileChatTemplate` does, one step in each turn of the event loop. */
export async function compileChatTemplateInTurns(
  source: ChatTemplateSource,
  tokens: SpecialTokens,
  { parse, pause, onHopeless }: TemplateCompilation,
): Promise<ChatTemplate> {
  const compile = async (text: string): Promise<Variant> => {
    const nodes = await parse(text);
    await pause();
    const steps = compileInSteps(text, nodes, tokens);
    for (let step = steps.next(); ; step = steps.next()) {
      if (step.done) return step.value;
      await pause();
    }
  };
  const texts = textsOf(source);
  const withoutTools = await compile(texts.default);
  const withTools = texts.toolUse === texts.default ? withoutTools : await compile(texts.toolUse);
  return createChatTemplate({ withoutTools, withTools, tokens, onHopeless });
}

type Texts = Exclude<ChatTemplateSource, string>;

function textsOf(source: ChatTemplateSource): Texts {
  return typeof source === 'string' ? { default: source, toolUse: source } : source;
}

interface Compiled {
  readonly withoutTools: Variant;
  readonly withTools: Variant;
  readonly tokens: SpecialTokens;
  readonly onHopeless: OnHopeless;
}

function createChatTemplate({ withoutTools, withTools, tokens, onHopeless }: Compiled): ChatTemplate {
  let isHopeless = false;
  return {
    render(input) {
      if (isHopeless) throw outOfBudget(true);
      try {
        return render(hasTools(input) ? withTools : withoutTools, input, tokens);
      } catch (error) {
        if (!(error instanceof TemplateBudgetError)) throw error;
        isHopeless = error.isHopeless;
        if (isHopeless) onHopeless(error.message);
        throw outOfBudget(isHopeless, error);
      }
    },
  };
}

function outOfBudget(isHopeless: boolean, cause?: TemplateBudgetError): ServeError {
  if (isHopeless)
    return new ServeError('service_unavailable', 'The chat template of this model cannot be used', { cause });
  const reason = cause?.message ?? 'it is too expensive';
  return new ServeError('invalid_value', `The chat template cannot be applied to these messages: ${reason}`, {
    param: 'messages',
    cause,
  });
}

interface Variant {
  readonly program: TemplateProgram;
  readonly shape: TemplateShape;
}

function* compileInSteps(source: string, nodes: readonly Node[], tokens: SpecialTokens): Generator<undefined, Variant> {
  const program = compileNodes(nodes);
  yield;
  return { program, shape: yield* probeTemplate(program, source, tokens) };
}

function hasTools(input: ChatTemplateInput): boolean {
  return input.tools !== undefined && input.tools.length > 0;
}

/**
 * Renders a conversation. If the template cannot express its history, the history is written as text: only new messages
 * can make a request fail.
 */
function render(variant: Variant, input: ChatTemplateInput, tokens: SpecialTokens): string {
  checkFlags(input);
  try {
    return renderAs(variant, input, tokens);
  } catch (refused) {
    if (!isRefusal(refused) || !hasHistory(input.messages)) throw refused;
    let text: string;
    try {
      text = renderAs(variant, { ...input, messages: plainHistory(input.messages) }, tokens);
    } catch {
      throw refused; // the history is not the reason
    }
    input.onPlain?.();
    return text;
  }
}

function isRefusal(thrown: unknown): boolean {
  return thrown instanceof ServeError && thrown.cause instanceof TemplateRuntimeError;
}

function renderAs({ program, shape }: Variant, input: ChatTemplateInput, tokens: SpecialTokens): string {
  const isContinued = input.continueFinalMessage === true;
  const variables: Record<string, unknown> = {
    ...tokens,
    messages: normalizeMessages(input.messages, shape),
    add_generation_prompt: !isContinued && (input.addGenerationPrompt ?? true),
  };
  if (hasTools(input)) variables.tools = normalizeTools(input.tools ?? []);
  Object.assign(variables, input.args);
  const write = (messages: unknown): string => run(program, { ...variables, messages }, input.nowMs);
  if (!isContinued) return write(variables.messages);
  return cutAfterPrefill(variables.messages as readonly UnknownRecord[], write);
}

function checkFlags(input: ChatTemplateInput): void {
  if (input.continueFinalMessage !== true) return;
  if (input.addGenerationPrompt === true) {
    throw cannotContinue('add_generation_prompt and continue_final_message cannot both be true');
  }
  if (input.messages.at(-1)?.role !== 'assistant') {
    throw cannotContinue('continue_final_message needs a last message from the assistant');
  }
}

function cannotContinue(message: string): ServeError {
  return new ServeError('invalid_value', message, { param: 'continue_final_message' });
}

/** Runs the template. Every failure comes from the messages: the template itself was tested when it was loaded. */
function run(program: TemplateProgram, variables: Readonly<Record<string, unknown>>, nowMs: number): string {
  try {
    return withinBudget(variables, () => program.render(variables, nowMs));
  } catch (error) {
    if (!(error instanceof TemplateRuntimeError)) throw error;
    throw new ServeError('invalid_value', `The chat template refuses these messages: ${error.message}`, {
      param: 'messages',
      cause: error,
    });
  }
}
