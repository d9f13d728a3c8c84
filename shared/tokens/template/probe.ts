import type { SpecialTokens } from '../model-info.ts';
import { withinBudget } from './budget.ts';
import type { ReasoningName, TemplateShape } from './normalize-messages.ts';
import type { TemplateProgram } from './program.ts';
import { TemplateRuntimeError } from './syntax.ts';

interface Turn {
  readonly role: string;
  readonly content: string;
}

const MARK = 'template_test';
const system: Turn = { role: 'system', content: MARK };
const user: Turn = { role: 'user', content: MARK };
const assistant: Turn = { role: 'assistant', content: MARK };

/** Steps for one conversation of up to four short turns: some 1 ms; templates in use need a tenth. */
const PROBE_STEPS = 16_384;
/** Number of passes over the whole template that one conversation may take. */
const PROBE_PASSES = 4;

/**
 * Computation that pauses after each rendered conversation, so that the caller can yield to the event loop in between.
 */
type Probe<T> = Generator<undefined, T>;

/** Renders a conversation to text; undefined when the template refuses it. */
type Attempt = (messages: readonly object[]) => Probe<string | undefined>;

/**
 * Finds out what a template accepts by rendering small conversations.
 * @throws TemplateBudgetError when one of them exceeds the budget of a template
 */
export function* probeTemplate(program: TemplateProgram, source: string, tokens: SpecialTokens): Probe<TemplateShape> {
  const attempt = attemptsOf(program, tokens);
  const rendersText = (yield* attempt([user]))?.includes(MARK) === true;
  const needsContentParts = !rendersText && (yield* attempt([asParts(user)]))?.includes(MARK) === true;
  const shape = (message: Turn): object => (needsContentParts ? asParts(message) : message);
  // A template that refuses even one user turn is not judged: it may need variables that only requests have.
  const isJudged = (yield* attempt([shape(user)])) !== undefined;
  const isRefused = function* (...turns: readonly Turn[]): Probe<boolean> {
    return isJudged && (yield* attempt(turns.map(shape))) === undefined;
  };
  const calls = callProbe(attempt, shape);
  return {
    isSystemFirstOnly: yield* isRefused(user, assistant, system, user),
    mustAlternate: yield* isRefused(user, user),
    needsContentParts,
    imageText: imageTextOf(source),
    takesArgumentText:
      /arguments\s+is\s+string/.test(source) ||
      (yield* takesOnly(calls, { arguments: '{"a": "b"}' }, { arguments: { a: 'b' } })),
    reasoningNames: reasoningNamesOf(source),
    joinsThoughts: yield* takesOnly(calls, { thinking: MARK }, { content: MARK, thinking: MARK }),
    hasShortIds: yield* takesOnly(calls, { id: 'test12345' }, { id: 'call_template_test' }),
  };
}

function attemptsOf(program: TemplateProgram, tokens: SpecialTokens): Attempt {
  return function* (messages) {
    let text: string | undefined;
    try {
      const variables = { ...tokens, messages, add_generation_prompt: true };
      text = withinBudget('', () => program.render(variables, 0), PROBE_STEPS + PROBE_PASSES * program.steps);
    } catch (error) {
      if (!(error instanceof TemplateRuntimeError)) throw error;
    }
    yield;
    return text;
  };
}

/** Tool call in a conversation. */
interface Called {
  readonly arguments?: unknown;
  readonly id?: string;
  readonly content?: string;
  readonly thinking?: string;
}

/** Returns whether a template accepts a conversation with such a tool call. */
type CallProbe = (call: Called) => Probe<boolean>;

function callProbe(attempt: Attempt, content: (turn: Turn) => object): CallProbe {
  return function* ({ arguments: given = {}, id = 'test12345', content: text = '', thinking }) {
    const called = { id, type: 'function', function: { name: MARK, arguments: given } };
    const turn = { ...content({ ...assistant, content: text }), tool_calls: [called] };
    const result = { ...content({ role: 'tool', content: MARK }), name: MARK, tool_call_id: id };
    const messages = [content(user), thinking === undefined ? turn : { ...turn, thinking }, result];
    return (yield* attempt(messages)) !== undefined;
  };
}

function* takesOnly(takes: CallProbe, taken: Called, refused: Called): Probe<boolean> {
  return !(yield* takes(refused)) && (yield* takes(taken));
}

/** Patterns of attributes or members: `message.thinking`, `message['thinking']`, `'thinking' in message`. */
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

/** Returns the text of an image for the vision families whose templates take only text. */
function imageTextOf(source: string): TemplateShape['imageText'] {
  if (source.includes('<|user|>') && source.includes('<|end|>')) return (index) => `<|image_${index}|>`;
  if (source.includes('USER:') && source.includes('ASSISTANT:')) return () => '<image>';
  return undefined;
}
