import { TemplateRuntimeError } from './ast.ts';
import type { TemplateShape } from './normalize-messages.ts';
import type { TemplateProgram } from './program.ts';

interface Turn {
  readonly role: string;
  readonly content: string;
}

const MARK = 'template_test';
const system: Turn = { role: 'system', content: MARK };
const user: Turn = { role: 'user', content: MARK };
const assistant: Turn = { role: 'assistant', content: MARK };

/** Finds out by rendering small conversations what a template takes. */
export function probeTemplate(
  program: TemplateProgram,
  source: string,
  variables: Readonly<Record<string, unknown>>,
): TemplateShape {
  const attempt = (messages: readonly object[]): string | undefined => {
    try {
      return program({ ...variables, messages, add_generation_prompt: true }, 0);
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
  return {
    isSystemFirstOnly: isRefused(user, assistant, system, user),
    mustAlternate: isRefused(user, user),
    needsContentParts,
    imageText: imageTextOf(source),
    takesArgumentText: /arguments\s+is\s+string/.test(source),
    takesReasoning: source.includes('reasoning_content'),
  };
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
