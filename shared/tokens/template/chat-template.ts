import { ServeError } from '../../errors/index.ts';
import type { UnknownRecord } from '../../records/index.ts';
import { readSpecialTokens, type SpecialTokens } from '../model-info.ts';
import type { ChatTemplate, ChatTemplateInput } from '../types.ts';
import { TemplateBudgetError, withinBudget } from './budget.ts';
import { normalizeMessages, normalizeTools, type ReasoningName, type TemplateShape } from './normalize-messages.ts';
import { hasHistory, plainHistory } from './plain-history.ts';
import { cutAfterPrefill } from './prefill.ts';
import { compileProgram, type TemplateProgram } from './program.ts';
import { TemplateRuntimeError } from './syntax.ts';

interface Turn {
  readonly role: string;
  readonly content: string;
}

const MARK = 'template_test';
const system: Turn = { role: 'system', content: MARK };
const user: Turn = { role: 'user', content: MARK };
const assistant: Turn = { role: 'assistant', content: MARK };

/** Template text, or one text for conversations with tools and one for those without. */
export type ChatTemplateSource = string | { readonly default: string; readonly toolUse: string };

/**
 * Compiles a chat template and finds out what it takes; rendering is then a few microseconds.
 * @param onHopeless told once, if a rendering takes more than its input can be worth: nothing is rendered from then on
 * @throws TemplateSyntaxError naming a construct, filter or test that is not supported
 * @throws TemplateBudgetError when small conversations take more than a template may take
 */
export function compileChatTemplate(
  source: ChatTemplateSource,
  tokens = readSpecialTokens({}),
  onHopeless: (reason: string) => void = () => undefined,
): ChatTemplate {
  const sources = typeof source === 'string' ? { default: source, toolUse: source } : source;
  const withoutTools = compileVariant(sources.default, tokens);
  const withTools = sources.toolUse === sources.default ? withoutTools : compileVariant(sources.toolUse, tokens);
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
    mentions: (name) => sources.default.includes(name) || sources.toolUse.includes(name),
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

function compileVariant(source: string, tokens: SpecialTokens): Variant {
  const program = compileProgram(source);
  return { program, shape: withinBudget('', () => probeTemplate(program, source, tokens)) };
}

function hasTools(input: ChatTemplateInput): boolean {
  return input.tools !== undefined && input.tools.length > 0;
}

/** A history that the template is too narrow for is told as text: only what is said anew can make a request fail. */
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
      throw refused; // it is not the history
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

/** Every failure while rendering comes from the messages: the template itself was proved at load. */
function run(program: TemplateProgram, variables: Readonly<Record<string, unknown>>, nowMs: number): string {
  try {
    return withinBudget(variables, () => program(variables, nowMs));
  } catch (error) {
    if (!(error instanceof TemplateRuntimeError)) throw error;
    throw new ServeError('invalid_value', `The chat template refuses these messages: ${error.message}`, {
      param: 'messages',
      cause: error,
    });
  }
}

/** Finds out by rendering small conversations what a template takes. */
function probeTemplate(program: TemplateProgram, source: string, tokens: SpecialTokens): TemplateShape {
  const attempt = (messages: readonly object[]): string | undefined => {
    try {
      return program({ ...tokens, messages, add_generation_prompt: true }, 0);
    } catch (error) {
      if (error instanceof TemplateRuntimeError) return undefined;
      throw error;
    }
  };
  const rendersText = attempt([user])?.includes(MARK) === true;
  const needsContentParts = !rendersText && attempt([asParts(user)])?.includes(MARK) === true;
  const shape = (message: Turn): object => (needsContentParts ? asParts(message) : message);
  // A template that refuses even one user turn is not judged: it may need variables that only requests bring.
  const isJudged = attempt([shape(user)]) !== undefined;
  const isRefused = (...turns: readonly Turn[]): boolean => isJudged && attempt(turns.map(shape)) === undefined;
  const calls = callProbe(attempt, shape);
  return {
    isSystemFirstOnly: isRefused(user, assistant, system, user),
    mustAlternate: isRefused(user, user),
    needsContentParts,
    imageText: imageTextOf(source),
    takesArgumentText: /arguments\s+is\s+string/.test(source) || takesOnlyText(calls),
    reasoningNames: reasoningNamesOf(source),
    joinsThoughts: !calls({ content: MARK, thinking: MARK }) && calls({ thinking: MARK }),
    hasShortIds: !calls({ id: 'call_template_test' }) && calls({ id: 'test12345' }),
  };
}

/** Whether a template takes a conversation in which a tool was called in this way. */
type CallProbe = (call: {
  readonly arguments?: unknown;
  readonly id?: string;
  readonly content?: string;
  readonly thinking?: string;
}) => boolean;

function callProbe(
  attempt: (messages: readonly object[]) => string | undefined,
  content: (turn: Turn) => object,
): CallProbe {
  return ({ arguments: given = {}, id = 'test12345', content: text = '', thinking }) => {
    const called = { id, type: 'function', function: { name: MARK, arguments: given } };
    const turn = { ...content({ ...assistant, content: text }), tool_calls: [called] };
    const result = { ...content({ role: 'tool', content: MARK }), name: MARK, tool_call_id: id };
    return attempt([content(user), thinking === undefined ? turn : { ...turn, thinking }, result]) !== undefined;
  };
}

function takesOnlyText(takes: CallProbe): boolean {
  return !takes({ arguments: { a: 'b' } }) && takes({ arguments: '{"a": "b"}' });
}

/** As attributes or members: `message.thinking`, `message['thinking']`, `'thinking' in message`. */
const REASONING: readonly (readonly [ReasoningName, RegExp])[] = [
  ['reasoning_content', /reasoning_content/],
  ['thinking', /(?:message|m|msg|turn)\.thinking\b|['"]thinking['"]\s*(?:\]|in\b)|\.get\(\s*['"]thinking['"]/],
  ['reasoning', /(?:message|m|msg|turn)\.reasoning\b|['"]reasoning['"]\s*(?:\]|in\b)|\.get\(\s*['"]reasoning['"]/],
];

function reasoningNamesOf(source: string): readonly ReasoningName[] {
  return REASONING.flatMap(([name, pattern]) => (pattern.test(source) ? [name] : []));
}

function asParts(turn: Turn): object {
  return { ...turn, content: [{ type: 'text', text: turn.content }] };
}

/** Vision families whose templates take text only. */
function imageTextOf(source: string): TemplateShape['imageText'] {
  if (source.includes('<|user|>') && source.includes('<|end|>')) return (index) => `<|image_${index}|>`;
  if (source.includes('USER:') && source.includes('ASSISTANT:')) return () => '<image>';
  return undefined;
}
