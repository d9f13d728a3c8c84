import { readFileSync } from 'node:fs';
import { ServeError } from '../../../shared/errors/index.ts';
import { decodeChat, parseChatBody, parseJsonBody } from '../../../shared/protocol/index.ts';
import { compileChatTemplate } from '../../../shared/tokens/template/chat-template.ts';
import type { ChatTemplate, ChatTemplateInput } from '../../../shared/tokens/types.ts';
import { contextWith } from '../../shared/protocol/decode-context.ts';
import type { HostileValues } from './hostile-values.ts';

const ROWS = readFileSync(new URL('../../fixtures/tokens/jinja-golden.jsonl', import.meta.url), 'utf8')
  .trim()
  .split('\n');
/** A template that prints values which only the request and the model may set. */
const SHOW =
  "{{ bos_token }}|{{ add_generation_prompt }}|{{ messages | tojson }}|{{ tools | default('none') | tojson }}";
const TOKENS = { bos_token: '<s>', eos_token: '</s>', unk_token: '', pad_token: '' };
const NAMES = ['enable_thinking', 'thinking', 'a', 'loop', 'namespace', 'range', 'documents', 'date_string', 'self'];
const RESERVED = ['messages', 'tools', 'bos_token', 'add_generation_prompt', 'raise_exception', 'chat_template'];

let templates: readonly ChatTemplate[] | undefined;

/** Compiles the fixtures that make a chat template, once. */
function allTemplates(): readonly ChatTemplate[] {
  templates ??= ROWS.flatMap((row) => {
    const { template } = JSON.parse(row) as { readonly template?: string };
    try {
      return template === undefined ? [] : [compileChatTemplate(template, TOKENS)];
    } catch {
      return []; // only an expression, or a construct that the loader refuses
    }
  });
  return templates;
}

const shown = compileChatTemplate(SHOW, TOKENS);

/**
 * Renders a template with arguments, messages and tools of a request. It must succeed, or refuse in the product's own
 * words.
 */
export function renderTemplate(values: HostileValues): void {
  const args = Object.fromEntries(
    Array.from({ length: values.random.below(4) }, () => [values.one([...NAMES, values.text()]), values.json()]),
  );
  const role = (): string => values.one(['user', 'assistant', 'system', 'tool', values.text()]);
  const messages = Array.from({ length: 1 + values.random.below(4) }, () => ({
    role: role(),
    content: values.one([values.text(), [{ type: 'text', text: values.text() }], values.json()]),
    ...(values.chance(0.3) ? { tool_calls: values.json() } : {}),
    ...(values.chance(0.2) ? { reasoning_content: values.json() } : {}),
  }));
  const tools = [{ type: 'function', function: { name: values.text(), parameters: values.json() } }];
  const input = { messages, nowMs: 0, ...(values.chance(0.5) ? { tools } : {}) } as unknown as ChatTemplateInput;
  orRefuses(() => values.one(allTemplates()).render({ ...input, args }));
  if (orRefuses(() => shown.render(input)) !== orRefuses(() => shown.render({ ...input, args }))) {
    throw new Error(`arguments replace fields of the request: ${JSON.stringify(args).slice(0, 500)}`);
  }
  const taken = values.one(RESERVED);
  const body = {
    model: 'm',
    messages: [{ role: 'user', content: 'a' }],
    chat_template_kwargs: { [taken]: values.json() },
  };
  const bytes = Buffer.from(JSON.stringify(body));
  const decoded = orRefuses(() => String(decodeChat(parseChatBody(parseJsonBody(bytes)), contextWith({}, {}))));
  if (decoded !== undefined) throw new Error(`${taken} is taken from the arguments`);
}

/** Returns undefined if `action` refuses in the product's own words. */
function orRefuses(action: () => string): string | undefined {
  try {
    return action();
  } catch (error) {
    if (error instanceof ServeError) return undefined;
    throw error;
  }
}
